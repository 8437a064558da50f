"""The one table, as peewee sees it; ``models.migrations`` creates it.

A row is a message in somebody's inbox or, when ``state_key`` is set, a fact:
something stated (a name, a closed task) that is replaced when stated again.
"""

import peewee


class Message(peewee.Model):
    """A row of the table; what each column holds for a message and for a fact."""

    seq = peewee.BigAutoField()  # the order of all rows; never reused
    realm = peewee.TextField()  # the tenant
    inbox = peewee.TextField()  # whose box it lies in; the address a fact is about
    task_id = peewee.TextField(null=True)
    type = peewee.TextField()
    sender = peewee.TextField()  # who sent or stated it
    content = peewee.TextField(null=True)  # JSON as received; a fact's details
    reply_to = peewee.BigIntegerField(null=True)
    copy_of = peewee.BigIntegerField(null=True)  # the post of which this is a member's copy
    opens = peewee.BooleanField(default=False)  # a thread's first row
    state_key = peewee.TextField(null=True)  # which fact; null for a message
    status = peewee.TextField()  # unread, acked, dead, expired; fact
    visible_at = peewee.BigIntegerField(default=0)  # 0 is now, else not before: ms
    holder = peewee.TextField(null=True)  # NONCE/NAME of who claimed it last
    attempts = peewee.IntegerField(default=0)
    dedup_key = peewee.TextField(null=True)
    dedup_hash = peewee.BlobField(null=True)
    created_at = peewee.BigIntegerField()  # ms since the epoch
    settled_at = peewee.BigIntegerField(null=True)  # acked, dead, expired; a fact: withdrawn
    expires_at = peewee.BigIntegerField(null=True)
    reason = peewee.TextField(null=True)  # why it was given back, died or expired
    extends_by = peewee.BigIntegerField(null=True)  # ms by which progress moves its deadline

    class Meta:
        table_name = "messages"
