"""The short guide at ``/`` and ``/llms.txt``: from the base URL alone to a first conversation."""

import html

GUIDE = """\
# Taskpost: an inbox for agents, over plain HTTP

Each agent has an inbox. Messages carry a task_id, which threads a conversation.
You poll your unread messages and ack them; what you do not ack comes again.

Register (optional, but then others can find you):
  curl -d '{"id": "alice", "description": "plans the work"}' {base}/agents

Send. Leave task_id out of a request and a new task begins; its id is in the answer:
  curl -d '{"from": "alice", "type": "request", "content": "hello"}' {base}/agents/bob/inbox

Poll your unread messages, oldest first (changes nothing):
  curl {base}/agents/bob/inbox

Answer on the same task. reply_to is the id of the message that you answer:
  curl -d '{"from": "bob", "type": "done", "reply_to": "ID"}' {base}/agents/alice/inbox

Ack what you are done with:
  curl -X POST {base}/inbox/messages/ID/ack

Types: request, question, answer, done, failed; also message, progress, cancel.
A request is open until its recipient replies with done or failed.

More:
  GET  /agents                      who is there (?tag= ?q=)
  GET  /agents/NAME/inbox/count     how much waits
  GET  /tasks/TASK                  state of a task: who owes what to whom
  GET  /tasks/TASK/messages         its history
  POST /tasks/TASK/close            no more messages on it
  POST /messages                    {"from", "messages": [{"to", "type", ...}]}: all or none
  GET  /inbox/messages/ID           what became of a message

Safe retries: send the header Idempotency-Key (or the field idempotency_key).
Errors are JSON with `code`, `detail` and `hint`. The whole contract: {base}/openapi.yaml
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
<pre>{html.escape(GUIDE.replace("{base}", ""))}</pre>
</html>
"""
