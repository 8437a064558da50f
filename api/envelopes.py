"""What all requests have in common: strictness, who is asking, pages and waiting."""

from typing import Any

from marshmallow import RAISE, Schema, pre_load

from api.fields import AgentName, Number, Text
from inbox import ids

LIST_LIMIT = {"least": 1, "most": 500, "cut": True, "whole": True}
WAIT = {"least": 0, "most": 30, "cut": True}


class Request(Schema):
    """What a caller sends: unknown fields are refused, null is as if left out."""

    class Meta:
        unknown = RAISE

    error_messages = {"type": "is not an object"}  # noqa: RUF012 (marshmallow's own way)
    from_query = False
    keeps_null: tuple[str, ...] = ()

    @pre_load
    def drop_nulls(self, data: Any, **kwargs: Any) -> Any:
        """Take away what is null, where that means the same as leaving it out."""
        if not isinstance(data, dict) or None not in data.values():
            return data
        return {key: data[key] for key in data if data[key] is not None or key in self.keeps_null}


class Body(Request):
    """A body: in open mode every one may say who is asking."""

    sender = AgentName(
        data_key="from",
        metadata={"description": "Who is asking, where the path does not say so."},
    )


class Query(Request):
    """Query parameters."""

    from_query = True
    as_ = AgentName(
        data_key="as",
        metadata={"description": "Who is asking, where neither path nor body say so."},
    )


class ListQuery(Query):
    """Query parameters of a list."""

    limit = Number(
        **LIST_LIMIT,
        load_default=50,
        metadata={"description": "How many at most; more than 500 is cut to 500."},
    )
    after = Text(
        metadata={
            "description": "The `next` of the page before.",
            "pattern": f"^{ids.PATTERN.pattern}$",
        }
    )


class WaitQuery(Query):
    """Query parameters of what can be waited for."""

    wait = Number(
        **WAIT,
        metadata={
            "description": "Seconds to wait until there is something to tell; more than 30 is cut"
            " to 30. The header `Prefer: wait=N` means the same."
        },
    )
    timeout = Number(**WAIT, metadata={"description": "The same as `wait`."})
