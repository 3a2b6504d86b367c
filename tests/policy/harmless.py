"""Fifty tools as servers really offer them, none of them an agent's memory: each passes guards and audit.

`name: arguments: description`. Some were refused by earlier versions; many stand near memory by a word or a shape.
"""

from typing import Any

__all__ = ["TOOLS"]

_TOOLS = """
s3_put_object: bucket key content content_type: Upload an object to a bucket under a key.
s3_get_object: bucket key: Download an object from a bucket.
s3_delete_object: bucket key version: Delete an object from a bucket.
s3_list_objects: bucket prefix: List the objects of a bucket.
translation_put: key description content: Set the translation of an interface text.
translation_get: key locale: Get the translation of an interface text.
redis_set: key value ttl: Set a value in the cache.
redis_get: key: Get a value from the cache.
kv_delete: key: Delete a value from the configuration store.
kv_put: key value: Put a value into the configuration store.
feature_flag_write: key description content: Create or change a feature flag.
secret_rotate: key: Rotate a secret in the vault.
file_read: path: Read a file of the workspace.
file_write: path content overwrite: Write a file of the workspace.
file_list: path: List the files of a directory.
note_export: format: Export the pages of the wiki.
page_create: title content description: Create a page in the wiki.
page_search: query limit: Search the wiki.
gpu_memory_list: host: List GPUs with their total and free memory.
get_memory_usage: pid: Report how much memory a process uses, in MiB.
memory_profile: command duration: Profile the allocations of a program.
heap_dump: pid: Write a heap dump of a Java process.
read_memory_address: address length: Read bytes at an address of the emulated machine.
set_memory_limit: container bytes: Set the memory limit of a container.
memory_leak_report: build: Report the leaks that the sanitizer found.
list_dimms: host: List the DIMMs of a server with size and speed.
issue_create: title description labels: Create an issue in the tracker.
issue_read: number: Read an issue of the tracker.
issue_update: number title description: Change an issue.
pull_request_list: state: List the pull requests of a repository.
commit_read: sha: Show a commit with its changes.
branch_delete: name: Delete a branch.
database_query: sql: Run a query on the reporting database.
table_describe: table: Describe the columns of a table.
row_insert: table values: Insert a row.
calendar_list: from to: List the events of a calendar.
event_create: title start end description: Create an event.
mail_send: to subject content: Send a message.
mail_search: query: Search the mailbox.
contact_lookup: name: Look a contact up in the address book.
weather_forecast: place days: Tell the weather of a place.
currency_convert: amount from to: Convert an amount of money.
route_plan: start end mode: Plan a route.
translate: text language: Translate a text.
web_search: query: Search the web.
web_fetch: url: Fetch a page and give its text.
screenshot: url width height: Take a picture of a page.
browser_click: selector: Click an element of the page.
product_recall_search: product: Search the recalls of products by their maker.
card_memory_game_new: pairs: Start a new game of pairs.
todo_write: items: Write the list of tasks of this session to the screen.
shell_run: command timeout: Run a command in the sandbox.
terraform_plan: directory: Show what an apply would change.
pod_logs: namespace pod lines: Show the log of a pod.
metric_query: expression from to: Query the metrics of a service.
"""


def _tool(line: str) -> dict[str, Any]:
    name, arguments, description = line.split(": ", 2)
    properties = {argument: {"type": "string", "description": f"The {argument}."} for argument in arguments.split()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "title": name.replace("_", " ").title(), "description": description, "inputSchema": schema}


TOOLS = [_tool(line) for line in _TOOLS.strip().splitlines()]
