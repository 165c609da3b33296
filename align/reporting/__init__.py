"""Pages of one file that show what was measured: text, tables, pictures, and curves one can point at."""
