"""Chooses which cases of a test run. With TERP_TEST_FEWER=N, a test with several
parameters runs with about one in N of them, at least one. TERP_TEST_SEED, or else
the date, is the seed of the choice."""
import os
import random
import time


def pytest_report_header():
    return f"TERP_TEST_SEED={seed()} tries the same cases again"


def seed():
    return int(os.environ.get("TERP_TEST_SEED", time.time() // 86400))


def pytest_collection_modifyitems(config, items):
    fewer = int(os.environ.get("TERP_TEST_FEWER", 1))
    cases = {}
    for item in items:
        cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    draw = random.Random(seed())
    kept = {id(item) for of_test in cases.values()
            for item in draw.sample(of_test, -(-len(of_test) // fewer))}
    config.hook.pytest_deselected(
        items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]
