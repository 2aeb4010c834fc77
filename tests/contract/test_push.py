"""Push configs: no `repr` shows what may be a secret."""

from wakeful.contract.push import PushConfig, PushConfigRef, PushSubscription


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
