"""The main job: two agents work on a task together."""

from tests.actors import Agent


def test_two_agents_hold_a_conversation(alice: Agent, bob: Agent) -> None:
    asked = alice.send(bob, "request", content="translate this contract", task_id="task-42")
    (seen,) = bob.poll()
    assert (seen["content"], seen["from"]) == ("translate this contract", "alice")
    question = bob.send(alice, "question", content="clause 3: A or B?", reply_to=asked["id"])
    assert question["task_id"] == "task-42"
    assert alice.task("task-42")["state"] == "waiting"
    alice.send(bob, "answer", content="A", reply_to=question["id"])
    bob.send(alice, "done", content={"text": "..."}, reply_to=asked["id"])
    assert alice.task("task-42")["state"] == "done"
    kinds = [message["type"] for message in alice.history("task-42")]
    assert kinds == ["request", "question", "answer", "done"]
    for message in bob.poll():
        bob.ack(message)
    assert bob.poll() == []
    assert bob.count() == 0
