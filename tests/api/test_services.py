"""Services: an address whose mail one of several workers takes."""

from collections.abc import Callable
from typing import Any

import pytest

from api.service import Service
from inbox import lifetimes
from tests.actors import Agent, Http, ok, refused, together

Travel = Callable[[float], None]
Sweep = Callable[[], None]


@pytest.fixture
def worker(agent: Callable[[str], Agent]) -> Agent:
    return agent("worker")


@pytest.fixture
def other(agent: Callable[[str], Agent]) -> Agent:
    return agent("other")


def read(http: Http, name: str = "translate") -> Any:
    return ok(http.get(f"/services/{name}"))


def test_a_request_to_a_service_is_done_by_a_worker(
    alice: Agent, worker: Agent, http: Http
) -> None:
    worker.work("translate")
    sent = alice.ask("translate", content="hello", task_id="t")
    assert sent["to"] == "service:translate"
    assert sent["recipient"] == {"known": True, "served": True}
    assert alice.task("t")["owes"][0]["from"] == "service:translate"
    (claimed,) = worker.take("translate")
    assert (claimed["content"], claimed["from"]) == ("hello", "alice")
    assert alice.task("t")["owes"][0]["from"] == "worker"
    worker.send(alice, "done", reply_to=claimed["id"], content="hallo")
    worker.settle(claimed)
    (answer,) = alice.poll()
    assert (answer["task_id"], answer["content"], answer["from"]) == ("t", "hallo", "worker")
    task = alice.task("t")
    assert (task["state"], task["owes"]) == ("done", [])


def test_a_reply_without_reply_to_settles_the_request_the_worker_has(
    alice: Agent, worker: Agent
) -> None:
    alice.ask("translate", task_id="t")
    (claimed,) = worker.take("translate")
    worker.settle(claimed)
    worker.send(alice, "done", task_id="t")
    assert alice.task("t")["state"] == "done"


def test_a_request_that_no_worker_serves_is_accepted_and_says_so(
    alice: Agent, worker: Agent, travel: Travel
) -> None:
    assert alice.ask("translate")["recipient"] == {"known": False, "served": False}
    assert alice.ask("translate")["recipient"] == {"known": True, "served": False}
    worker.work("translate")
    assert alice.ask("translate")["recipient"]["served"]
    travel(61)
    assert not alice.ask("translate")["recipient"]["served"]
    assert len(worker.take("translate", limit=9)) == 4


def test_questions_and_answers_go_between_the_worker_and_the_requester(
    alice: Agent, worker: Agent
) -> None:
    alice.ask("translate", task_id="t")
    (claimed,) = worker.take("translate")
    question = worker.send(alice, "question", reply_to=claimed["id"], content="A or B?")
    assert alice.task("t")["state"] == "waiting"
    alice.send(worker, "answer", reply_to=question["id"], content="A")
    assert [each["content"] for each in worker.poll()] == ["A"]
    kinds = [each["type"] for each in worker.history("t")]
    assert kinds == ["request", "question", "answer"]
    assert worker.task("t")["participants"] == ["alice", "service:translate", "worker"]


def test_the_worker_has_a_part_in_what_it_holds_and_no_other_worker_has(
    alice: Agent, worker: Agent, other: Agent, travel: Travel
) -> None:
    sent = alice.ask("translate", task_id="t")
    other.work("translate")
    worker.take("translate")
    assert worker.receipt(sent)["leased_by"] == "worker"
    refused(other.try_task("t"), 404, "task_not_found")
    refused(other.try_send(alice, "done", reply_to=sent["id"]), 422, "reply_not_found")
    travel(61)
    other.take("translate")
    assert other.task("t")["state"] == "open"
    refused(worker.try_send(alice, "done", reply_to=sent["id"]), 422, "reply_not_found")


def test_a_claim_needs_a_worker_with_a_name(http: Http, alice: Agent) -> None:
    alice.ask("translate")
    refused(http.post("/services/translate/claim", {}), 422, "sender_required")
    refused(http.post("/services/translate/workers", {}), 422, "sender_required")
    answer = http.post("/services/translate/claim", {"from": "postmaster"})
    refused(answer, 403, "reserved")


def test_the_mail_of_a_service_is_settled_by_its_holder_alone(
    alice: Agent, worker: Agent, other: Agent
) -> None:
    sent = alice.ask("translate")
    refused(worker.try_ack(sent), 404, "message_not_found")
    (claimed,) = worker.take("translate")
    refused(worker.try_ack(sent), 409, "lease_lost")
    refused(other.try_ack(sent), 404, "message_not_found")
    refused(alice.try_ack(sent), 403, "not_yours")
    assert worker.settle(claimed)["status"] == "acked"


def test_a_claim_settles_by_receipt(alice: Agent, worker: Agent, http: Http) -> None:
    alice.ask("translate")
    (claimed,) = worker.take("translate")
    answer = ok(worker.try_take("translate", ack=[claimed["receipt"], claimed["id"]]))
    assert [each["status"] for each in answer["results"]] == ["acked", "acked"]
    assert read(http)["in_flight"] == 0


def test_a_service_tells_how_it_is_doing(
    alice: Agent, worker: Agent, other: Agent, http: Http, travel: Travel
) -> None:
    first = alice.ask("translate", content=1)
    alice.ask("translate", content=2)
    alice.ask("translate", content=3, deliver_in=60)
    worker.work("translate", state="working", capacity=2, activity="reading")
    (claimed,) = worker.take("translate")
    found = read(http)
    counts = {key: found[key] for key in ("waiting", "delayed", "in_flight", "dead", "came")}
    assert counts == {"waiting": 1, "delayed": 1, "in_flight": 1, "dead": 0, "came": 3}
    assert found["oldest_at"] > first["created_at"]
    (told,) = found["workers"]
    assert (told["name"], told["state"], told["capacity"], told["activity"]) == (
        "worker",
        "working",
        2,
        "reading",
    )
    worker.settle(claimed)
    assert read(http)["acked"] == 1
    travel(400)
    found = read(http)
    assert (found["came"], found["acked"], found["workers"]) == (0, 0, [])


def test_a_dead_worker_disappears_and_a_claim_counts_as_a_sign_of_life(
    worker: Agent, http: Http, travel: Travel, sweep: Sweep
) -> None:
    since = worker.work("translate")["since"]
    travel(50)
    worker.take("translate")
    travel(50)
    assert read(http)["workers"][0]["since"] == since
    travel(11)
    assert read(http)["workers"] == []
    sweep()
    assert worker.work("translate")["since"] > since


def test_a_draining_worker_gets_nothing(alice: Agent, worker: Agent) -> None:
    alice.ask("translate")
    worker.work("translate", state="draining")
    assert worker.take("translate", wait=1) == []
    worker.work("translate", state="idle")
    assert len(worker.take("translate")) == 1


def test_a_service_is_declared_and_changed(alice: Agent, http: Http) -> None:
    fields = {"title": "German", "max_attempts": 2, "lease_seconds": 30, "deadline_seconds": 90}
    made = ok(http.post("/services/translate", fields), 201)
    assert {key: made[key] for key in fields} == fields
    changed = ok(http.post("/services/translate", {"title": None, "lease_seconds": None}), 200)
    assert "title" not in changed
    assert (changed["max_attempts"], changed["lease_seconds"]) == (2, 60)
    assert changed["deadline_seconds"] == 90


def test_a_service_has_its_own_lease_deadline_and_attempts(
    alice: Agent, worker: Agent, http: Http, travel: Travel, sweep: Sweep
) -> None:
    fields = {"max_attempts": 2, "lease_seconds": 30, "deadline_seconds": 90}
    http.post("/services/translate", fields)
    assert alice.ask("translate")["expires_at"]
    worker.take("translate")
    travel(31)
    assert worker.take("translate")[0]["attempts"] == 2
    travel(31)
    sweep()
    assert read(http)["dead"] == 1
    assert alice.poll()[0]["content"]["to"] == "service:translate"


def test_no_more_than_the_capacity_is_in_work_at_once(
    alice: Agent, worker: Agent, other: Agent, http: Http
) -> None:
    http.post("/services/translate", {"capacity": 3})
    for _ in range(6):
        alice.ask("translate")
    first = worker.take("translate", limit=2)
    assert len(other.take("translate", limit=9)) == 1
    assert worker.take("translate") == []
    worker.settle(first[0])
    assert len(other.take("translate", limit=9)) == 1


def test_parallel_workers_stay_within_the_capacity(
    alice: Agent, http: Http, agent: Callable[[str], Agent]
) -> None:
    http.post("/services/translate", {"capacity": 4})
    for _ in range(20):
        alice.ask("translate")
    workers = [agent(f"worker-{index}") for index in range(6)]
    got = together(6, lambda index: len(workers[index].take("translate", limit=3)))
    assert sum(got) == 4


def test_dead_requests_are_listed_and_redriven_by_the_workers(
    alice: Agent, worker: Agent, other: Agent, http: Http
) -> None:
    http.post("/services/translate", {"max_attempts": 1})
    alice.ask("translate")
    (claimed,) = worker.take("translate")
    assert worker.settle(claimed, "release", reason="broken")["status"] == "dead"
    path = "/services/translate/requests"
    (dead,) = ok(http.get(f"{path}?status=dead&as=worker"))["messages"]
    assert dead["reason"] == "broken"
    refused(http.get(f"{path}?as=other"), 403, "not_yours")
    answer = ok(http.post("/services/translate/redrive", {"from": "worker"}))
    assert answer == {"redriven": 1, "dead": 0}
    (claimed,) = worker.take("translate")
    worker.settle(claimed, "release")
    refused(other.do(claimed, "redrive"), 404, "message_not_found")
    assert ok(worker.do(claimed, "redrive"))["attempts"] == 0


def test_closing_ends_what_waits_and_opening_again_revives_nothing(
    alice: Agent, worker: Agent, http: Http, sweep: Sweep
) -> None:
    """Case 33."""
    alice.ask("translate", task_id="held")
    alice.ask("translate", task_id="waiting")
    (held,) = worker.take("translate")
    assert ok(http.post("/services/translate/close", {}))["closed_at"]
    refused(alice.try_ask("translate"), 409, "service_closed")
    refused(worker.try_take("translate"), 409, "service_closed")
    assert "closed_at" not in ok(http.post("/services/translate", {}), 200)
    assert worker.take("translate", limit=9) == []
    for verb in ("ack", "extend", "release"):
        refused(worker.try_settle(held, verb), 409, "message_expired")
    sweep()
    bounces = alice.poll()
    assert {each["task_id"] for each in bounces} == {"held", "waiting"}
    assert {each["content"]["reason"] for each in bounces} == {"service_closed"}
    alice.ask("translate", content="new")
    assert [each["content"] for each in worker.take("translate", limit=9)] == ["new"]


def test_closing_a_long_queue_leaves_the_rest_to_the_sweeper(
    alice: Agent, worker: Agent, http: Http, sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A close is brief, however much waits; what waited is not revived meanwhile."""
    monkeypatch.setattr(lifetimes, "BATCH", 3)
    for number in range(10):
        alice.ask("translate", task_id=f"t{number}", deliver_in=1000 if number > 7 else 0)
    worker.take("translate", limit=2)
    ok(http.post("/services/translate/close", {}))
    answer = refused(http.post("/services/translate", {}), 409, "service_closed")
    assert "some seconds" in answer["hint"]
    refused(alice.try_ask("translate"), 409, "service_closed")
    sweep()
    sweep()
    assert len(alice.poll()) == 10
    assert "closed_at" not in ok(http.post("/services/translate", {}), 200)
    assert worker.take("translate", limit=9) == []


def test_a_worker_opens_a_closed_service(alice: Agent, worker: Agent, http: Http) -> None:
    worker.work("translate")
    http.post("/services/translate/close", {"from": "worker"})
    worker.work("translate")
    assert alice.ask("translate")["recipient"]["served"]


def test_a_service_is_closed_by_its_maker_and_the_operator(
    alice: Agent, worker: Agent, http: Http
) -> None:
    worker.work("translate")
    answer = http.post("/services/translate/close", {"from": "alice"})
    refused(answer, 403, "not_yours")
    ok(http.post("/services/translate/close", {"from": "worker"}))
    ok(http.post("/services/translate/close", {}))


def test_a_cancel_takes_a_request_back_that_nobody_holds(alice: Agent, worker: Agent) -> None:
    asked = alice.ask("translate", task_id="t")
    alice.ask("translate", type="cancel", reply_to=asked["id"])
    assert worker.take("translate", limit=9) == []
    assert alice.receipt(asked)["status"] == "expired"
    assert alice.task("t")["state"] == "cancelled"


def test_a_cancel_reaches_the_worker_that_holds_the_request(alice: Agent, worker: Agent) -> None:
    asked = alice.ask("translate", task_id="t")
    (held,) = worker.take("translate")
    alice.ask("translate", type="cancel", task_id="t", content="never mind")
    (cancel,) = worker.poll()
    assert (cancel["type"], cancel["content"]) == ("cancel", "never mind")
    assert worker.take("translate", limit=9) == []
    assert worker.settle(held)["id"] == asked["id"]
    assert alice.task("t")["state"] == "cancelled"


def test_progress_from_a_worker_pushes_the_deadline_back(
    alice: Agent, worker: Agent, other: Agent, travel: Travel
) -> None:
    asked = alice.ask("translate", expires_in=60, extend_on_progress=True)
    worker.take("translate", lease_seconds=600)
    travel(40)
    worker.send(alice, "progress", reply_to=asked["id"], percent=10)
    assert alice.receipt(asked)["expires_at"] > asked["expires_at"]


def test_services_are_listed_by_name(http: Http, alice: Agent) -> None:
    for name in ("b", "c", "a"):
        alice.ask(name)
    page = ok(http.get("/services?limit=2"))
    assert [each["name"] for each in page["services"]] == ["a", "b"]
    rest = ok(http.get(f"/services?limit=2&after={page['next']}"))
    assert [each["name"] for each in rest["services"]] == ["c"]
    assert "next" not in rest
    refused(http.get("/services?after=!"), 400, "invalid_cursor")


def test_what_is_no_service_is_not_there(http: Http, alice: Agent) -> None:
    refused(http.get("/services/nothing"), 404, "service_not_found")
    refused(http.get("/services/nothing/requests"), 404, "service_not_found")
    refused(http.post("/services/nothing/close", {}), 404, "service_not_found")
    refused(http.post("/services/-x/claim", {"from": "w"}), 422, "invalid_request")
    refused(http.post("/services//claim", {"from": "w"}), 404, "not_found")


def test_a_service_that_differs_in_case_is_refused(http: Http, alice: Agent, worker: Agent) -> None:
    alice.ask("translate")
    refused(alice.try_ask("Translate"), 409, "name_differs_in_case")
    refused(worker.try_take("TRANSLATE"), 409, "name_differs_in_case")
    refused(http.get("/services/TRANSLATE"), 409, "name_differs_in_case")


@pytest.mark.parametrize("type", ["done", "answer", "progress", "spam"])
def test_a_service_takes_what_asks(alice: Agent, type: str) -> None:
    refused(alice.try_ask("translate", type=type, task_id="t"), 422, "invalid_request")


def test_a_request_with_a_key_is_sent_once(alice: Agent, worker: Agent) -> None:
    first = alice.ask("translate", idempotency_key="k")
    assert ok(alice.try_ask("translate", idempotency_key="k"), 200)["id"] == first["id"]
    assert len(worker.take("translate", limit=9)) == 1


def test_twenty_first_requests_at_once_make_one_service(
    store: str, http: Http, alice: Agent
) -> None:
    answers = together(8, lambda index: alice.try_ask("fresh").status_code)
    assert set(answers) == {201}
    assert read(http, "fresh")["waiting"] == 8


def test_asking_a_service_may_wait_for_the_answer(store: str, agent: Any) -> None:
    http = Http(Service(1 << 20, waiters=4))
    alice, worker = Agent(http, "alice"), Agent(http, "worker")
    options = {"environ_overrides": {"wsgi.multithread": True}}

    def work() -> int:
        (claimed,) = worker.take("translate", wait=20, options=options)
        worker.send(alice, "done", reply_to=claimed["id"], content=42)
        return int(worker.settle(claimed)["attempts"])

    def ask() -> Any:
        query = {**options, "query_string": {"wait": 20}}
        return ok(alice.try_ask("translate", options=query), 200)["content"]

    assert together(2, lambda index: work() if index else ask()) == [42, 1]
