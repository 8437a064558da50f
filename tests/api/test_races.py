"""Many at once: one wins, the others are told, nothing is lost and nobody meets a server error."""

import threading
from collections.abc import Callable

from inbox import turn
from models import facts
from tests.actors import Agent, Http, ok, together


def test_twenty_registrations_of_one_name_at_once_make_one_agent(http: Http) -> None:
    """Case 49."""
    for name in ("a", "b", "c"):
        body = {"id": name, "aliases": [f"{name}-1", f"{name}-2"], "tags": ["t"]}
        answers = together(20, lambda _, body=body: http.post("/agents", body).status_code)
        assert sorted(answers) == [200] * 19 + [201]


def test_case_twins_and_shared_aliases_at_once_have_one_owner(http: Http) -> None:
    """Case 49: whoever is first has the name, everybody else a 409."""
    bodies = [{"id": name, "aliases": ["x", "y"]} for name in ("a", "A", "b", "B", "c", "d")]
    answers = together(6, lambda index: http.post("/agents", bodies[index]).status_code)
    assert sorted(answers) == [201] + [409] * 5


def test_a_name_claimed_at_once_goes_to_one_and_fails_for_none(store: str) -> None:
    """Case 49: a name is unique in two ways, and either may be met first."""
    step = threading.Barrier(8, timeout=10)

    def claim(_: int) -> int:
        won = 0
        for name in (f"n{number}" for number in range(60)):
            step.wait()
            won += turn.alone(lambda name=name: facts.state("r", "name", name, "a", key=name))
        return won

    assert sum(together(8, claim)) == 60


def test_mail_sent_while_its_name_becomes_an_alias_is_not_stranded(
    http: Http, agent: Callable
) -> None:
    """Promise 1: also when neither has seen the other."""
    step = threading.Barrier(4, timeout=10)

    def work(index: int) -> int:
        sent = 0
        for number in range(25):
            step.wait()
            if index == 0:
                agent(f"bob{number}").register(aliases=[f"x{number}"])
            else:
                sent += agent("alice").try_send(f"x{number}").status_code == 201
        return sent

    sent = sum(together(4, work))
    assert sent == 75
    assert sum(agent(f"bob{number}").count() for number in range(25)) == sent


def test_bulk_acks_of_the_same_messages_at_once_all_succeed(
    alice: Agent, bob: Agent, http: Http
) -> None:
    ids = [each["id"] for each in alice.send_many(*[{"to": "bob", "type": "message"}] * 60)]

    def ack(index: int) -> set[str]:
        mine = ids[index * 5 :] if index % 2 else ids[::-1]
        return {result["status"] for result in bob.ack_many(*mine)}

    assert together(8, ack) == [{"acked"}] * 8
    assert bob.count() == 0
    assert len({seen["acked_at"] for seen in bob.poll(status="acked", limit=500)}) <= 8


def test_retiring_and_coming_back_at_once_ends_in_one_of_the_two(bob: Agent, http: Http) -> None:
    def turnabout(index: int) -> int:
        if index % 2:
            return http.post("/agents/bob/retire").status_code
        return http.post("/agents", {"id": "bob", "aliases": [f"b{index}"]}).status_code

    for _ in range(5):
        assert together(8, turnabout) == [200] * 8
    retired = "retired_at" in ok(http.get("/agents/bob"))
    answer = Agent(http, "alice").try_send("bob")
    assert answer.status_code == (409 if retired else 201)


def test_closing_and_sending_at_once_leaves_no_message_after_the_close(
    alice: Agent, bob: Agent
) -> None:
    alice.send(bob, task_id="t")

    def act(index: int) -> int:
        if index == 3:
            return alice.try_close("t").status_code
        return alice.try_send(bob, task_id="t").status_code

    codes = together(8, act)
    assert set(codes) <= {200, 201, 409}
    assert bob.count() == 1 + codes.count(201)
    assert alice.try_send(bob, task_id="t").status_code == 409
