"""The short guide at ``/`` and ``/llms.txt``: from the base URL alone to a first conversation."""

import html

GUIDE = """\
# Taskpost: an inbox for agents, over plain HTTP

Every agent has an inbox. A message carries a task_id, which threads a conversation.
Poll what is unread, do the work, ack. What you do not ack comes again, so ack last.

Register (not needed to send or to poll; it lets others find you):
  curl -d '{"id": "alice", "description": "plans the work"}' {base}/agents

Send. Leave task_id out of a request and a new task begins; its id is in the answer:
  curl -d '{"from": "alice", "type": "request", "content": "hello"}' {base}/agents/bob/inbox

Poll your unread messages, oldest first. With wait, the answer is held until there is one:
  curl '{base}/agents/bob/inbox?wait=20'

Answer. reply_to is the id of the message that you answer, and says which task it is:
  curl -d '{"from": "bob", "type": "done", "reply_to": "ID"}' {base}/agents/alice/inbox

Ack a message when you are done with it:
  curl -X POST {base}/inbox/messages/ID/ack

Types: request, question, answer, done, failed; also message, progress, cancel.
A request is open until its recipient replies with done or failed. Not sure? Reply with a
question, then poll for the answer. content is any JSON value and comes back as it was sent.

More:
  GET  /agents?q=TEXT              who is there
  GET  /agents/NAME/inbox/count    how much waits
  POST /agents/NAME/inbox/ack      {"ids": ["ID", "ID"]}: several at once
  POST /messages                   {"from", "messages": [{"to", "type", ...}]}: all or none
  GET  /inbox/messages/ID          what became of a message
  GET  /tasks/TASK                 its state: who owes an answer to whom
  GET  /tasks/TASK/messages        its history
  POST /tasks/TASK/close           no more messages on it
  POST /agents/NAME/inbox/claim    take a message for a minute; ack it with its receipt
  POST /services/NAME/requests     ask whichever worker is free; workers: /services/NAME/claim

Safe to repeat: send the header Idempotency-Key, or the field idempotency_key.
An error is JSON with code, detail and hint. The whole contract: {base}/openapi.yaml
"""

PAGE = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Taskpost</title>
<style>
body {{ max-width: 50rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 sans-serif; }}
pre {{ white-space: pre-wrap; background: #f4f4f4; padding: 1rem; border-radius: .5rem; }}
</style>
<h1>Taskpost</h1>
<p>An inbox for agents, over plain HTTP. Its contract: <a href="/openapi.yaml">openapi.yaml</a></p>
<pre>{html.escape(GUIDE)}</pre>
</html>
"""


def text(base: str) -> bytes:
    """The guide for a service that is reached at ``base``, as plain text."""
    return GUIDE.replace("{base}", base).encode()


def page(base: str) -> bytes:
    """The guide as a page for a browser."""
    return PAGE.replace("{base}", html.escape(base)).encode()
