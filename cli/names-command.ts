import { NAMES_FILE, parseNamesText, type SavedNames } from '../agent/names/saved-names.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { stateFile } from '../lib/process/state-file.ts';
import { loadConfig } from './load.ts';
import { json, print, table } from './output.ts';

interface NamesOptions {
  readonly stateDir: string;
  /** Read and checked like in every command; its content has no effect here. */
  readonly config?: string;
  readonly output: 'table' | 'json';
}

/**
 * `nodewall names`: the names of the rules in force and their addresses, as the agent last saved
 * them.
 */
export async function namesCommand({ stateDir, config, output }: NamesOptions): Promise<ExitStatus> {
  await loadConfig(config);
  const saved = await readNames(stateDir);
  await print(output === 'json' ? json(toJson(saved)) : toTable(saved));
  return EXIT.done;
}

async function readNames(stateDir: string): Promise<SavedNames | null> {
  try {
    const text = await stateFile(stateDir, NAMES_FILE).read();
    return text === null ? null : parseNamesText(text);
  } catch (error) {
    const cause = (error as Error).cause;
    const why = cause instanceof Error ? ` (${cause.message})` : '';
    throw new CommandError(EXIT.refused, `${(error as Error).message}${why}`, { cause: error });
  }
}

function toJson(saved: SavedNames | null): object {
  const names = (saved?.names ?? []).map(({ name, failing, addresses }) => ({
    name,
    failing,
    addresses: addresses.map((one) => ({ ...one, seen: isoTime(one.seen), expires: isoTime(one.expires) })),
  }));
  return { saved: saved === null ? null : isoTime(saved.saved), names };
}

function toTable(saved: SavedNames | null): string {
  if (saved === null || saved.names.length === 0) {
    return 'No names: no rule on this node has an fqdn peer, or no name has resolved yet.\n';
  }
  const rows = saved.names.flatMap(({ name, failing, addresses }) =>
    addresses.map(({ address, source, seen, expires, state }) => [
      name,
      address,
      source,
      isoTime(seen),
      isoTime(expires),
      failing === null ? state : `${state}, ${failing}`,
    ]),
  );
  const text = table(['name', 'address', 'source', 'seen', 'expires', 'state'], rows);
  return `Saved ${isoTime(saved.saved)}.\n\n${text}`;
}

/** ISO 8601, to the second; the year 1970 for an invalid time. */
function isoTime(milliseconds: number): string {
  const date = new Date(milliseconds);
  return `${(Number.isNaN(date.getTime()) ? new Date(0) : date).toISOString().slice(0, 19)}Z`;
}
