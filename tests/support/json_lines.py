"""JSON Lines, written and read by the tests themselves."""

import json


def write_rows(path, rows):
    """Write a line for each row; return the path."""
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    return path


def read_rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]
