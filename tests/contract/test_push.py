"""Push configs: no `repr` shows what may be a secret, and a task and a thread have only so many."""

from wakeful.contract.push import PushConfig, PushConfigRef, PushSubscription, has_room


def test_a_config_shows_neither_its_secrets_nor_its_address() -> None:
    config = PushConfig(
        id="c1",
        task_id="t1.5feceb66",
        message_id="m1",
        url="https://example.com/secret",
        token="secret",
        scheme="Bearer",
        credentials="secret",
    )
    assert "secret" not in repr(PushSubscription(config=config))
    assert "secret" not in str(config)
    assert config.ref == PushConfigRef(task_id="t1.5feceb66", id="c1")


def test_a_config_is_added_while_its_task_and_its_thread_have_room() -> None:
    config = PushConfig(id="new", task_id="t", message_id="m", url="https://example.com", per_task=2, per_thread=3)
    own, other = [PushConfigRef(task_id="t", id=str(n)) for n in range(2)], PushConfigRef(task_id="u", id="0")
    assert has_room(config, [own[0], other])
    assert not has_room(config, own)
    assert not has_room(config, [own[0], other, PushConfigRef(task_id="v", id="0")])


def test_a_config_of_an_older_server_has_no_limit() -> None:
    config = PushConfig(id="new", task_id="t", message_id="m", url="https://example.com")
    assert has_room(config, [PushConfigRef(task_id="t", id=str(n)) for n in range(100)])
