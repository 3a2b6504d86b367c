"""What well-known public MCP servers offer, by name and in words like theirs: to measure whom the rules find.

Data only. `MEMORIES` keep what an agent remembers, whatever they call it; every other server is in `OTHERS`. Wordings
are paraphrased closely, for they change from release to release; names are as published.
"""

from typing import Any, Final

Offers = list[tuple[str, dict[str, Any]]]


def tools(**described: str) -> Offers:
    return [("tool", {"name": name, "description": text}) for name, text in described.items()]


def takes(name: str, text: str, *arguments: str, **choices: list[str]) -> Offers:
    properties = {a: {"type": "string"} for a in arguments} | {a: {"enum": c} for a, c in choices.items()}
    return [("tool", {"name": name, "description": text, "inputSchema": {"type": "object", "properties": properties}})]


def server(name: str, instructions: str = "") -> Offers:
    return [("server", {"name": name} | ({"instructions": instructions} if instructions else {}))]


def resource(uri: str, name: str, text: str = "") -> Offers:
    return [("resource", {"uri": uri, "name": name, "description": text})]


def template(uri: str, name: str, text: str = "") -> Offers:
    return [("resource template", {"uriTemplate": uri, "name": name, "description": text})]


def prompt(name: str, text: str, *arguments: str) -> Offers:
    return [("prompt", {"name": name, "description": text, "arguments": [{"name": a} for a in arguments]})]


# A server is found if any of its offers is. The names beside it are those that must be found by themselves.
MEMORIES: Final[dict[str, tuple[set[str], Offers]]] = {
    "server-memory": (
        {"memory-server"},
        server("memory-server")
        + tools(
            create_entities="Create multiple new entities in the knowledge graph",
            add_observations="Add new observations to existing entities in the knowledge graph",
            read_graph="Read the entire knowledge graph",
            search_nodes="Search for nodes in the knowledge graph based on a query",
        ),
    ),
    "of few words": (
        {"write_memory", "readMemory", "memory-update", "memorize", "remember_v2"},
        tools(
            **{
                "write_memory": "Writes a text.",
                "readMemory": "",
                "memory-update": "Changes an entry.",
                "memorize": "Takes a text.",
                "remember_v2": "Takes a text and a tag.",
            }
        ),
    ),
    "mem0": (
        {"add_memory", "search_memories", "get_memories", "get_memory", "update_memory", "delete_memory"},
        server("mem0")
        + tools(
            add_memory="Store a new preference, fact, or conversation snippet. Requires a user_id, agent_id or run_id.",
            search_memories="Run a semantic search over existing memories. Use filters to narrow results.",
            get_memories="Page through memories using filters instead of search.",
            get_memory="Fetch a single memory once you know its memory_id.",
            update_memory="Overwrite an existing memory's text.",
            delete_memory="Delete one memory after the user confirms its memory_id.",
        ),
    ),
    "openmemory": (
        {"add_memories", "search_memory", "list_memories", "delete_all_memories"},
        tools(
            add_memories="Add a new memory. Called whenever the user tells anything about themselves.",
            search_memory="Search through stored memories. Called every time the user asks anything.",
            list_memories="List all memories in the user's memory",
            delete_all_memories="Delete all memories in the user's memory",
        ),
    ),
    "basic-memory": (
        {"Basic Memory", "ai_assistant_guide", "memory://project/{name}"},
        server("Basic Memory")
        + tools(
            write_note="Create or update a markdown note.",
            read_note="Read a markdown note by title or permalink.",
            build_context="Build context from a memory:// URI to continue conversations naturally.",
        )
        + resource("memory://ai_assistant_guide", "ai_assistant_guide", "Guide for the assistant")
        + [("resource template", {"uriTemplate": "memory://project/{name}", "name": ""})],
    ),
    "letta": (
        {"core_memory_append", "archival_memory_insert", "archival_memory_search", "read_memory_block"},
        tools(
            core_memory_append="Append to the contents of core memory.",
            archival_memory_insert="Add to archival memory, phrased so that it can be easily queried later.",
            archival_memory_search="Search archival memory using semantic search.",
            read_memory_block="Retrieve full details of a specific memory block, by its ID.",
        ),
    ),
    "mcp-memory-service": (
        {"store_memory", "retrieve_memory", "recall_memory", "delete_memory"},
        tools(
            store_memory="Store new information with optional tags.",
            retrieve_memory="Find relevant memories based on query.",
            recall_memory="Retrieve memories using natural language time expressions.",
            delete_memory="Delete a specific memory by its hash.",
        ),
    ),
    "graphiti": (
        {"add_memory"},
        tools(
            add_memory="Add an episode to memory. This is the primary way to add information to the graph.",
            search_nodes="Search for nodes in the graph.",
        ),
    ),
    "memory-bank": (
        {"memory_bank_read", "memory_bank_write"},
        tools(
            memory_bank_read="Read a memory bank file for a specific project",
            memory_bank_write="Create a new memory bank file for a specific project",
        ),
    ),
    "qdrant": (
        {"qdrant-store", "qdrant-find"},
        tools(
            **{
                "qdrant-store": "Keep the memory for later use, when you are asked to remember something.",
                "qdrant-find": "Look up memories in Qdrant. Use this to find memories by their content.",
            }
        ),
    ),
    "serena": (
        {"write_memory", "read_memory", "list_memories", "delete_memory"},
        tools(
            write_memory="Write information about this project that can be useful for future tasks to a memory.",
            read_memory="Read the content of a memory. Only if the information is relevant to the current task.",
            list_memories="List available memories.",
            delete_memory="Delete a memory, if the user asks for it.",
        ),
    ),
    "agent-memory-server": (
        {"create_long_term_memories", "search_long_term_memory", "memory_prompt", "set_working_memory"},
        tools(
            create_long_term_memories="Create long-term memories that can be searched later.",
            search_long_term_memory="Search for memories related to a query for vector search.",
            memory_prompt="Hydrate a user query with relevant session history and long-term memories.",
            set_working_memory="Set working memory for a session. It keeps what the agent learned so far.",
        ),
    ),
    "remember and recall": (
        {"remember", "recall", "forget"},
        tools(
            remember="Stores a memory.",
            recall="Recalls memories on a topic.",
            forget="Removes a memory.",
        ),
    ),
    "remember without the noun": (
        {"remember_this", "recall_facts"},
        tools(
            remember_this="Save a fact about the user so that later conversations can use it.",
            recall_facts="Recall facts that were learned in previous sessions.",
        ),
    ),
    "one tool for all": (
        {"memory"},
        takes("memory", "Manage notes.", "path", command=["view", "create", "insert", "delete", "rename"]),
    ),
    "files as memory": (
        {"read_memory", "save_memory", "delete_memory"},
        tools(
            read_memory="Read persistent memory. Use list_sections first if unsure where info is stored.",
            auto_save="Silently save information about me worth remembering long-term, across conversations.",
            save_memory="Explicitly save a fact to memory when asked directly.",
            delete_memory="Delete something from memory. Provide a unique fragment.",
        ),
    ),
    "pieces": ({"ask_ltm"}, tools(ask_ltm="Ask a question about the user's work; answers from long-term memory.")),
    "prompts": (
        {"load_context", "continue"},
        prompt("load_context", "Load relevant memories into the conversation", "topic")
        + prompt("continue", "Retrieve from memory what was said in previous conversations"),
    ),
    "resources": (
        {"notes", "one"},
        resource("memory://notes", "notes") + template("memory://notes/{key}", "one", "A note"),
    ),
}

OTHERS: Final[dict[str, Offers]] = {
    "filesystem": server("secure-filesystem-server")
    + tools(
        read_text_file="Read the complete contents of a file from the file system as text.",
        write_file="Create a new file or completely overwrite an existing file with new content.",
        edit_file="Make line-based edits to a text file.",
        list_directory="Get a detailed listing of all files and directories in a specified path.",
        directory_tree="Get a recursive tree view of files and directories as a JSON structure.",
        search_files="Recursively search for files and directories matching a pattern.",
        list_allowed_directories="Returns the list of directories that this server is allowed to access.",
    )
    + takes("write", "Write a file.", "path", "content", "overwrite"),
    "git": server("mcp-git")
    + tools(
        git_status="Shows the working tree status",
        git_add="Adds file contents to the staging area",
        git_log="Shows the commit logs",
        git_commit="Records changes to the repository",
    ),
    "fetch": tools(fetch="Fetches a URL from the internet and optionally extracts its contents as markdown."),
    "postgres": tools(query="Run a read-only SQL query")
    + resource("postgres://host/db/users/schema", '"users" schema'),
    "sqlite": tools(
        read_query="Execute a SELECT query on the SQLite database",
        write_query="Execute an INSERT, UPDATE, or DELETE query on the SQLite database",
        append_insight="Add a business insight to the memo",
    )
    + resource("memo://insights", "Business Insights Memo", "A living document of discovered business insights"),
    "slack": tools(
        slack_list_channels="List public channels in the workspace with pagination",
        slack_post_message="Post a new message to a Slack channel",
        slack_get_channel_history="Get recent messages from a channel",
        slack_get_thread_replies="Get all replies in a message thread",
    ),
    "redis": server("redis-mcp-server")
    + tools(
        set="Set a Redis string value with an optional expiration time.",
        delete="Delete a Redis key.",
        info="Get Redis server information and statistics: clients, memory, persistence.",
        hset="Set a field in a hash stored at key with an optional expiration time.",
        memory_usage="Returns the number of bytes that a key takes in memory.",
        scan_keys="Scan keys in the Redis database using non-blocking, production-safe SCAN command.",
    )
    + takes("get", "Get a Redis string value.", "key"),
    "memcached": tools(
        set="Stores a value in memory under a key, until it expires.",
        get="Returns the value that is stored in memory under the key.",
    ),
    "s3": takes("put_object", "Uploads an object.", "key", "content", "overwrite")
    + takes("put_object_described", "Uploads an object.", "bucket", "key", "description", "content")
    + takes("get_object", "Downloads an object.", "bucket", "key")
    + takes("delete_object", "Deletes an object.", "key")
    + tools(list_objects="Lists the objects in a bucket."),
    "key-value store": takes("kv_put", "Stores a value under a key.", "key", "value", "overwrite")
    + takes("kv_get", "Gets the value stored under a key.", "key")
    + takes("kv", "Everything one can do with keys.", "key", "value", action=["list", "get", "put", "delete"])
    + tools(kv_list="Lists the keys with a prefix."),
    "secrets": takes("get_secret", "Reads a secret.", "key")
    + takes("set_secret", "Saves a secret with a note.", "key", "description", "value"),
    "notion": tools(
        **{
            "API-post-search": "Search by title",
            "API-retrieve-a-page": "Retrieve a page",
            "API-patch-block-children": "Append block children",
            "API-create-a-comment": "Create comment",
        }
    ),
    "obsidian": tools(
        obsidian_append_content="Append content to a new or existing file in the vault.",
        obsidian_simple_search="Simple search for documents matching a specified text query across the vault.",
        obsidian_get_periodic_note="Get current periodic note for the specified period.",
    ),
    "github": tools(
        create_or_update_file="Create or update a single file in a GitHub repository",
        search_repositories="Search for GitHub repositories",
        get_file_contents="Get the contents of a file or directory from a GitHub repository",
        add_issue_comment="Add a comment to an existing issue",
        list_notifications="Lists all GitHub notifications for the authenticated user",
    ),
    "jira and confluence": takes("create_project", "Creates a project.", "key", "name", "description")
    + takes("update_page", "Updates a page.", "space", "key", "description", "content", "title"),
    "translations": takes("set_text", "Sets a translated text.", "key", "locale", "description", "content"),
    "calendar": tools(
        create_event="Creates an event and reminds you of it.",
        list_events="Lists the events of a day.",
    ),
    "todo": tools(add_task="Adds a task that you should not forget.", complete_task="Marks a task as done."),
    "sequential-thinking": tools(
        sequentialthinking="A detailed tool for dynamic and reflective problem-solving through thoughts.",
    ),
    "everything": tools(
        echo="Echoes back the input",
        longRunningOperation="Demonstrates a long running operation with progress updates",
        sampleLLM="Samples from an LLM using MCP's sampling feature",
    )
    + prompt("complex_prompt", "A prompt with arguments", "temperature", "style"),
    "playwright": tools(
        browser_snapshot="Capture accessibility snapshot of the current page, this is better than screenshot",
        browser_network_requests="Returns all network requests since loading the page",
    ),
    "chrome-devtools": tools(
        take_memory_snapshot="Capture a memory heap snapshot of the current page, to analyze the memory distribution of"
        " JavaScript objects and debug memory leaks.",
        list_console_messages="List all console messages for the currently selected page.",
    ),
    "kubernetes": tools(
        pods_top="List the resource consumption (CPU and memory) as recorded by the Metrics Server for the pods.",
        resources_get="Get a Kubernetes resource in the current cluster.",
    ),
    "docker": tools(
        container_stats="Returns live CPU, memory and network numbers of a container.",
        update_container="Updates the memory limit of a container.",
        fetch_container_logs="Fetch logs for a Docker container",
    )
    + resource("docker://containers/a/stats", "Stats of a", "Memory and CPU of the container"),
    "cloud machines": tools(
        create_vm="Creates a machine with the given cores and memory.",
        add_memory="Adds RAM to a machine; it takes effect at the next boot.",
        update_function="Updates the memory size and the timeout of a function.",
    ),
    "ollama": tools(
        list_running="Lists the models that are currently loaded in memory.",
        load_model="Loads a model into memory.",
        unload_model="Removes a model from memory.",
    ),
    "duckdb": server("mcp-server-duckdb", "Queries an in-memory database.")
    + tools(query="Execute SQL on the in-memory database.", attach="Attach a database; :memory: keeps it in RAM."),
    "debugger": server("gdb-server")
    + tools(
        read_memory="Reads memory of the debugged process at an address.",
        write_memory="Writes bytes to an address in the debugged process.",
        search_memory="Searches the memory of the process for a pattern of bytes.",
        gdb_examine="Examine memory in the specified format",
    ),
    "debugger of few words": tools(read_memory="Reads from the target.")
    + takes("write_memory", "Writes.", "address", "value")
    + takes("readMemory", "Reads.", "offset", "length"),
    "forensics": tools(
        list_processes="Lists the processes in a memory image.",
        dump_memory="Writes the memory of a process to a file.",
    ),
    "profiler": server("memory-profiler")
    + tools(find_leaks="Finds memory leaks and lists the allocation stacks.")
    + resource("memory://usage", "usage", "Memory in use, by process"),
    "prometheus": tools(execute_query="Execute a PromQL query", list_metrics="List all available metrics"),
    "product recalls": tools(
        search_recalls="Search food recalls of the past years by product.",
        recall_details="Gets a recall of a vehicle by its number.",
        get_recall_rate="Computes precision and recall of a classifier.",
    ),
    "accounts": tools(login="Signs in; with remember_me the session is kept.", forgot_password="Sends a link."),
    "photos": tools(list_albums="Lists albums.", show_day="Shows the photos of this day as memories."),
    "games": server("memory-card-game") + tools(flip="Flips a card of the memory game and shows the picture."),
    "machine learning": tools(train="Trains a long short-term memory network, and saves what it learned."),
    "training": tools(
        flashcards="Lists flash cards on a topic, to memorize vocabulary.",
        human_memory="Explains how human memory stores what was learned.",
    ),
    "brave, maps, time": tools(
        brave_web_search="Performs a web search using the Brave Search API.",
        maps_geocode="Convert an address into geographic coordinates",
        get_current_time="Get current time in a specific timezone",
    ),
    "documentation": tools(
        resolve_library_id="Resolves a package name to a library ID and returns a list of matching libraries.",
        search_docs="Searches the manual, the chapter on memory management included.",
    ),
    "private chat": tools(chat="Talk to the assistant. It keeps no memory of earlier conversations."),
    "vector database": tools(
        upsert="Inserts vectors into a collection.",
        similarity_search="Finds the documents that are nearest to a text.",
    ),
    "crm": tools(
        get_contact_notes="Returns the notes that were saved for a contact.",
        list_conversations="Lists earlier conversations with a customer.",
    ),
    "email": tools(
        read_email="Reads a message by its id.",
        save_draft="Saves a draft.",
        search_threads="Searches previous conversations.",
    ),
}
