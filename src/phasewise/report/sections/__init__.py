"""The sections of the pages, one idea a file: records in, blocks out, no markup."""
