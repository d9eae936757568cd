import io, json, sys
from dotenv import dotenv_values
def ask(text):
    try:
        return dotenv_values(stream=io.StringIO(text)).get("A")
    except Exception:
        return None
json.dump([ask(text) for text in json.load(sys.stdin)], sys.stdout)
