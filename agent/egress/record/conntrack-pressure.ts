import { readFile } from 'node:fs/promises';

/**
 * How full the kernel's table of connections is, and what it refused, in this network namespace.
 */
export interface ConntrackPressure {
  readonly entries: number;
  readonly max: number;
  /** Since boot. */
  readonly failures: Readonly<Record<ConntrackFailure, number>>;
}

/**
 * insert_failed: another connection has the same addresses and ports after translation: collisions
 * are counted here. drop: there was no room or no memory. early_drop: an entry was removed to make
 * room.
 */
const CONNTRACK_FAILURES = ['insert_failed', 'drop', 'early_drop'] as const;
type ConntrackFailure = (typeof CONNTRACK_FAILURES)[number];

/** Null: the kernel has no connection tracking, or does not show it in /proc. */
export async function readPressure(proc = '/proc'): Promise<ConntrackPressure | null> {
  try {
    const setting = async (name: string): Promise<number> =>
      Number(await readFile(`${proc}/sys/net/netfilter/${name}`, 'latin1'));
    const [entries, max, text] = await Promise.all([
      setting('nf_conntrack_count'),
      setting('nf_conntrack_max'),
      readFile(`${proc}/net/stat/nf_conntrack`, 'latin1'),
    ]);
    return { entries, max, failures: failuresIn(text) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** A line of names, then one of hexadecimal numbers for each processor. */
function failuresIn(text: string): ConntrackPressure['failures'] {
  const [names = [], ...rows] = text
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/));
  const sumOf = (name: ConntrackFailure): number => {
    const column = names.indexOf(name);
    return rows.reduce((sum, row) => sum + Number.parseInt(row[column] ?? '0', 16), 0);
  };
  return { insert_failed: sumOf('insert_failed'), drop: sumOf('drop'), early_drop: sumOf('early_drop') };
}
