"""Print the table of wrong readings: ``python -m tests.text.forms [--seed N] [--wrong]``."""

from __future__ import annotations

import argparse
from collections import Counter

from .table import cases_of, table_of


def _lines(counts: Counter[str], wrong: Counter[str]) -> None:
    for name, count in counts.items():
        print(f"| {name} | {count} | {wrong[name]} | {wrong[name] / count:.1%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="draws the values")
    parser.add_argument("--wrong", action="store_true", help="print each form that is read wrong")
    options = parser.parse_args()
    for language in ("en", "zh"):
        table = table_of(cases_of(language, options.seed))
        print(f"{language}: {len(table.wrong)} wrong of {table.kinds.total()} ({table.share:.1%})")
        for counts, wrong in (
            (table.kinds, table.wrong_kinds),
            (table.places, table.wrong_places),
        ):
            print("\n| | cases | wrong | share |\n| --- | --- | --- | --- |")
            _lines(counts, wrong)
        if options.wrong:
            forms = Counter((case.form.kind, case.form.text) for case, _ in table.wrong)
            said = {(case.form.kind, case.form.text): said for case, said in table.wrong}
            for key, count in forms.items():
                print(f"{count:3} {key[0]}: {key[1]!r}: {said[key]}")


if __name__ == "__main__":
    main()
