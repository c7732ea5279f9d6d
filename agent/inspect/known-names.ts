import { utcText } from '../../lib/process/clock.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { stateFile } from '../../lib/process/state-file.ts';
import {
  NAMES_FILE,
  parseNamesText,
  type SavedAddress,
  type SavedName,
  type SavedNames,
} from '../names/saved-names.ts';

/** The names of the rules in force; times are ISO 8601, to the second. */
export interface NamesInForce {
  /** When the agent saved them; null: it never did. */
  readonly saved: string | null;
  readonly names: readonly KnownName[];
}

interface KnownName extends Omit<SavedName, 'addresses'> {
  readonly addresses: readonly (Omit<SavedAddress, 'seen' | 'expires'> & {
    readonly seen: string;
    readonly expires: string;
  })[];
}

/** As the agent last saved them. Throws a CommandError if the file cannot be read. */
export async function knownNames(stateDir: string): Promise<NamesInForce> {
  const found = await read(stateDir);
  if (found === null) return { saved: null, names: [] };
  const { saved, names } = found;
  return {
    saved: isoTime(saved),
    names: names.map(({ name, failing, addresses }) => ({
      name,
      failing,
      addresses: addresses.map((one) => ({ ...one, seen: isoTime(one.seen), expires: isoTime(one.expires) })),
    })),
  };
}

async function read(stateDir: string): Promise<SavedNames | null> {
  try {
    const text = await stateFile(stateDir, NAMES_FILE).read();
    return text === null ? null : parseNamesText(text);
  } catch (error) {
    const { message, cause } = error as Error;
    const why = cause instanceof Error ? ` (${cause.message})` : '';
    throw new CommandError(EXIT.refused, `${message}${why}`, { cause: error });
  }
}

/** The year 1970 for an invalid time. */
function isoTime(milliseconds: number): string {
  const date = new Date(milliseconds);
  return utcText(Number.isNaN(date.getTime()) ? 0 : date);
}
