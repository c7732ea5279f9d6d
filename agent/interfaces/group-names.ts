import { chmod, chown, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import type { Config } from '../../apis/config.ts';
import { ifAbsent } from '../../lib/process/state-file.ts';
import { groupNames } from './classify.ts';

/**
 * The names of link groups that `ip link` and `nft list` show: a block of lines `NUMBER NAME` in
 * /etc/iproute2/group (iproute2, lib/rt_names.c). The rest of the file is not changed.
 */
const BEGIN = '# nodewall: begin (kept by nodewall; do not edit these lines)';
const END = '# nodewall: end';
const FRESH = '0\tdefault\n';

/** Group name to number; null: no names are written. */
export type GroupNames = Pick<Config, 'interfaceGroups'>['interfaceGroups'] | null;

interface NamedText {
  readonly text: string;
  /** Messages about foreign lines that conflict with a name of ours. */
  readonly conflicts: readonly string[];
}

/** The file's text with our block; with null, without it. Pure. */
export function withGroupNames(text: string, interfaceGroups: GroupNames): NamedText {
  const others = withoutBlock(text);
  if (interfaceGroups === null) return { text: others, conflicts: [] };
  const known = namesIn(others);
  const lines: string[] = [];
  const conflicts: string[] = [];
  for (const name of groupNames({ interfaceGroups })) {
    const number = interfaceGroups[name] ?? 0;
    const taken = known.find((entry) => entry.number === number || entry.name === name);
    if (taken === undefined) {
      lines.push(`${number}\t${name}\n`);
      known.push({ number, name });
    } else if (taken.number !== number || taken.name !== name) {
      conflicts.push(`${number} ${name} is not written: the file already has ${taken.number} ${taken.name}`);
    }
  }
  const block = lines.length === 0 ? '' : `${BEGIN}\n${lines.join('')}${END}\n`;
  const isEnded = others === '' || others.endsWith('\n');
  return { text: block === '' ? others : `${others}${isEnded ? '' : '\n'}${block}`, conflicts };
}

/**
 * Updates the file: writes a temporary file and renames it, with mode and owner kept, and only if
 * the text differs. A missing file is created with iproute2's default content. Returns the
 * conflicts; rejects with the system's error.
 */
export async function writeGroupNames(path: string, interfaceGroups: GroupNames): Promise<readonly string[]> {
  const before = await readFile(path, 'utf8').catch(ifAbsent);
  if (before === null && interfaceGroups === null) return [];
  const { text, conflicts } = withGroupNames(before ?? FRESH, interfaceGroups);
  if (text !== before) await replace(before === null ? path : await realpath(path), text);
  return conflicts;
}

function withoutBlock(text: string): string {
  const lines = text.split(/(?<=\n)/);
  const begin = lines.findIndex((line) => line.trimEnd() === BEGIN);
  if (begin < 0) return text;
  const end = lines.findIndex((line, i) => i > begin && line.trimEnd() === END);
  // The end line was removed by a third party: lines that may be foreign stay.
  const rest = end < 0 ? lines.slice(begin + 1) : lines.slice(end + 1);
  return withoutBlock([...lines.slice(0, begin), ...rest].join(''));
}

function namesIn(text: string): { number: number; name: string }[] {
  return [...text.matchAll(/^[ \t]*(0x[0-9a-f]+|\d+)[ \t]+(\S+)/gim)].map(([, number, name = '']) => ({
    number: Number(number),
    name,
  }));
}

async function replace(path: string, text: string): Promise<void> {
  const temporary = `${path}.nodewall`;
  const old = await stat(path).catch(() => null);
  try {
    await writeFile(temporary, text);
    await chmod(temporary, (old?.mode ?? 0o644) & 0o7777);
    if (old !== null) await chown(temporary, old.uid, old.gid);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
