"""Delivery: what is sent is listed to its recipient until it acks it, and to nobody else."""

from collections.abc import Callable

from tests.actors import Agent, Http, ok, pages, refused


def test_reading_twice_finds_the_same(alice: Agent, bob: Agent, http: Http) -> None:
    """Case 1."""
    alice.send(bob, content=1)
    alice.send(bob, content=2)
    first = bob.poll()
    assert http.request("HEAD", "/agents/bob/inbox").data == b""
    ok(http.get("/agents/bob/inbox"))
    bob.receipt(first[0])
    bob.history(first[0]["task_id"])
    assert bob.poll() == first
    assert bob.count() == 2


def test_an_agent_that_retires_and_comes_back_within_a_day_finds_its_requests(
    alice: Agent, bob: Agent, travel: Callable
) -> None:
    """Case 2."""
    sent = [alice.send(bob, expires_in=hours * 3600) for hours in (2, 30)]
    sent += [alice.send(bob) for _ in range(3)]
    bob.retire()
    travel(3600)
    refused(alice.try_send(bob), 409, "agent_retired")
    assert "retired_at" not in bob.register()
    assert [seen.get("expires_at") for seen in bob.poll()] == [
        each.get("expires_at") for each in sent
    ]
    travel(24 * 3600)
    assert bob.count() == 4  # the one that had two hours has had them


def test_an_agent_that_comes_back_after_a_day_does_not_find_its_requests(
    alice: Agent, bob: Agent, travel: Callable
) -> None:
    """Case 2."""
    requests = [alice.send(bob), alice.send(bob, expires_in=100 * 3600)]
    note = alice.send(bob, "message", content="still true")
    bob.retire()
    travel(24 * 3600 + 1)
    bob.register()
    assert [seen["id"] for seen in bob.poll()] == [note["id"]]
    assert [alice.receipt(each)["status"] for each in requests] == ["expired", "expired"]


def test_retiring_twice_is_as_once(alice: Agent, bob: Agent, travel: Callable) -> None:
    alice.send(bob)
    first = bob.retire()
    travel(20 * 3600)
    assert bob.retire()["retired_at"] == first["retired_at"]
    assert bob.count() == 1
    travel(5 * 3600)
    assert bob.count() == 0


def test_a_page_that_was_not_read_to_its_end_comes_again(
    alice: Agent, bob: Agent, http: Http
) -> None:
    """Case 3."""
    sent = alice.send_many(*[{"to": "bob", "type": "message"} for _ in range(500)])
    cut = http.client.open("/agents/bob/inbox", query_string={"limit": 500}, buffered=False)
    next(cut.iter_encoded())
    cut.close()
    assert [seen["id"] for seen in bob.poll(limit=500)] == [each["id"] for each in sent]


def test_an_ack_in_somebody_elses_name_is_refused(alice: Agent, bob: Agent, http: Http) -> None:
    """Case 4."""
    path = f"/inbox/messages/{alice.send(bob)['id']}/ack"
    carol = {"Taskpost-Agent": "carol"}
    refused(http.post(path, {"from": "bob"}, headers=carol), 403, "sender_mismatch")
    refused(http.post(path, {}, headers=carol), 404, "message_not_found")
    refused(http.post(path, {"from": "alice"}), 403, "not_yours")
    refused(http.post(path, {"from": "BOB"}), 409, "name_differs_in_case")
    bulk = "/agents/bob/inbox/ack"
    refused(http.post(bulk, {"ids": ["x"]}, headers=carol), 404, "inbox_not_found")
    assert bob.count() == 1


def test_a_second_ack_answers_as_the_first(alice: Agent, bob: Agent, travel: Callable) -> None:
    """Case 7."""
    sent = alice.send(bob)
    first = bob.ack(sent)
    travel(60)
    assert bob.ack(sent) == first
    assert first["status"] == "acked"
    assert alice.receipt(sent)["acked_at"] == first["acked_at"]


def test_an_ack_of_an_unknown_id_is_not_found(bob: Agent) -> None:
    """Case 7."""
    for id in ("m0000000000000999", "mffffffffffffffff", "7", "%00", "bob", "m1", "%FF", "x" * 999):
        refused(bob.try_ack(id), 404, "message_not_found")


def test_a_fact_is_no_message(bob: Agent, http: Http) -> None:
    for number in range(1, 5):  # bob's name and registration are rows of the same table
        id = f"m{number:016x}"
        refused(bob.try_ack(id), 404, "message_not_found")
        refused(http.get(f"/inbox/messages/{id}"), 404, "message_not_found")
        refused(bob.try_send("alice", "answer", reply_to=id), 422, "reply_not_found")


def test_mail_to_a_near_miss_is_accepted_and_names_the_known_agent(
    alice: Agent, agent: Callable
) -> None:
    """Case 8."""
    engineer = agent("engineer")
    engineer.register()
    assert alice.send(engineer)["recipient"] == {"known": True}
    sent = alice.send("enginer")
    assert sent["recipient"] == {"known": False, "did_you_mean": "engineer"}
    assert alice.send("somebody-else")["recipient"] == {"known": False}
    assert [seen["id"] for seen in agent("enginer").poll()] == [sent["id"]]


def test_an_agent_that_has_been_heard_of_is_known(alice: Agent, agent: Callable) -> None:
    assert alice.send("carol")["recipient"] == {"known": False}
    agent("carol").poll()
    assert alice.send("carol")["recipient"] == {"known": True}


def test_a_message_to_oneself_arrives(alice: Agent) -> None:
    """Case 9."""
    sent = alice.send(alice, content="remember")
    assert [seen["id"] for seen in alice.poll()] == [sent["id"]]
    alice.ack(sent)
    assert alice.count() == 0


def test_quick_answers_arrive_in_order(alice: Agent, bob: Agent) -> None:
    """Case 11."""
    asked = alice.send(bob)
    bob.send(alice, "question", reply_to=asked["id"])
    for text in "abc":
        alice.send(bob, "answer", reply_to=asked["id"], content=text)
    alice.send(bob, "done", reply_to=asked["id"], content="d")
    assert [seen.get("content") for seen in bob.poll()] == [None, "a", "b", "c", "d"]


def test_side_mail_on_a_task_is_not_shown_to_a_bystander(
    alice: Agent, bob: Agent, agent: Callable
) -> None:
    """Case 12."""
    carol = agent("carol")
    post = alice.send(carol, "message", task_id="t", content="for all")
    side = alice.send(bob, "request", task_id="t", content="for bob")
    bob.send(alice, "done", reply_to=side["id"])
    assert [seen["id"] for seen in carol.history("t")] == [post["id"]]
    summary = carol.task("t")
    assert (summary["messages"], summary["participants"]) == (1, ["alice", "carol"])
    assert (summary["owes"], summary["by_type"]) == ([], {"message": 1})
    assert alice.task("t")["messages"] == 3


def test_an_empty_agent_is_an_error_and_never_everybodys_mail(alice: Agent, http: Http) -> None:
    """Case 13."""
    alice.send("bob")
    for path in ("/agents//inbox", "/agents//inbox/count", "/agents//inbox/ack", "/agents//"):
        refused(http.get(path), 404, "not_found")
        refused(http.post(path), 404, "not_found")
    refused(http.post("/agents//inbox", {"from": "a", "type": "request"}), 404, "not_found")
    batch = {"from": "a", "messages": [{"to": "", "type": "request"}]}
    refused(http.post("/messages", batch), 422, "invalid_request")
    refused(http.post("/agents/bob/inbox", {"from": "", "type": "request"}), 422, "invalid_request")
    refused(http.post("/agents", {"id": ""}), 422, "invalid_request")
    for path in ("/tasks?as=", "/agents/bob/inbox?as="):
        refused(http.get(path), 422, "invalid_request")
    refused(http.get("/tasks", headers={"Taskpost-Agent": ""}), 422, "invalid_request")


def test_a_result_waits_for_a_requester_that_never_registered(alice: Agent, bob: Agent) -> None:
    """Case 14."""
    asked = alice.send(bob)
    done = bob.send(alice, "done", reply_to=asked["id"], content={"text": "..."})
    assert [seen["id"] for seen in alice.poll()] == [done["id"]]


def test_registering_again_and_again_makes_no_second_copy(alice: Agent, bob: Agent) -> None:
    """Case 15."""
    made = {bob.register(description="works", aliases=["robert"])["created_at"] for _ in range(5)}
    alice.send(bob)
    alice.send("robert")
    assert (bob.count(), len(made)) == (2, 1)


def test_an_ack_of_one_task_leaves_the_others_mail_alone(alice: Agent, bob: Agent) -> None:
    """Case 18."""
    mine = [alice.send(bob, task_id="mine") for _ in range(3)]
    other = [alice.send(bob, task_id="other") for _ in range(2)]
    seen = bob.poll(task_id="mine")
    assert [each["id"] for each in seen] == [each["id"] for each in mine]
    assert {result["status"] for result in bob.ack_many(*seen)} == {"acked"}
    assert [each["id"] for each in bob.poll()] == [each["id"] for each in other]


def test_delayed_mail_is_not_there_before_its_time(
    alice: Agent, bob: Agent, travel: Callable
) -> None:
    """Promise 6: not listed, not counted, not acked, not read, not answered."""
    later = alice.send(bob, task_id="t", deliver_in=60)
    assert (bob.poll(status="all"), bob.count()) == ([], 0)
    refused(bob.try_ack(later), 404, "message_not_found")
    assert bob.ack_many(later)[0]["code"] == "message_not_found"
    for recipient in (alice, bob):
        answer = bob.try_send(recipient, "done", reply_to=later["id"])
        refused(answer, 422, "reply_not_found")
    refused(bob.try_task("t"), 404, "task_not_found")
    refused(bob.http.get(f"/inbox/messages/{later['id']}?as=bob"), 404, "message_not_found")
    assert alice.receipt(later)["deliver_at"] > later["created_at"]
    now = alice.send(bob, task_id="t")
    travel(60)
    assert [seen["id"] for seen in bob.poll()] == [later["id"], now["id"]]
    assert bob.ack(later)["status"] == "acked"


def test_expired_mail_is_not_delivered(alice: Agent, bob: Agent, travel: Callable) -> None:
    short = alice.send(bob, expires_in=10)
    travel(10)
    assert (bob.poll(), bob.count()) == ([], 0)
    refused(bob.try_ack(short), 409, "message_expired")
    assert bob.ack_many(short)[0]["code"] == "message_expired"
    assert alice.receipt(short)["status"] == "expired"
    assert [seen["status"] for seen in bob.poll(status="all")] == ["expired"]


def test_a_bulk_ack_says_what_became_of_each_id(alice: Agent, bob: Agent) -> None:
    mine, other, acked = alice.send(bob), alice.send("carol"), alice.send(bob)
    own = bob.send(alice)
    bob.ack(acked)
    given = [mine["id"], "nonsense", other["id"], acked["id"], own["id"], mine["id"]]
    results = bob.ack_many(*given)
    assert [result["id"] for result in results] == given
    assert [result.get("code") for result in results] == [
        None, "message_not_found", "message_not_found", None, "not_yours", None,
    ]  # fmt: skip
    assert pages(bob.try_poll) == [[]]
