"""validate.py SCHEMA DOCUMENT... - says of each JSON document whether the JSON Schema (2020-12) holds, one line each."""
import json
import sys

from jsonschema import Draft202012Validator


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


schema = read(sys.argv[1])
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
for path in sys.argv[2:]:
    error = next(validator.iter_errors(read(path)), None)
    print("refused: " + "/".join(map(str, error.absolute_path)) if error else "accepted")
