import { ENTRY_OPTIONS } from '../lib/entry.ts';
import type { FakeSet, Header, Stored } from './set.ts';

export function headerText(header: Header): string {
  // forceadd is in force, but ipset does not print it.
  const printed = [...header].filter(([option]) => option !== 'forceadd');
  return printed.map(([option, value]) => (value === '' ? option : `${option} ${value}`)).join(' ');
}

export function saveText(name: string, set: FakeSet, now: number): string {
  const lines = [`create ${name} ${set.type} ${headerText(set.header)}`];
  for (const stored of set.entries.values()) lines.push(`add ${name} ${entryText(set, stored, now)}`);
  return lines.map((line) => `${line}\n`).join('');
}

export function listText(
  name: string,
  set: FakeSet,
  references: number,
  terse: boolean,
  now: number,
): string {
  const lines = [
    `Name: ${name}`,
    `Type: ${set.type}`,
    'Revision: 0',
    `Header: ${headerText(set.header)}`,
    'Size in memory: 0',
    `References: ${references}`,
    `Number of entries: ${set.entries.size}`,
  ];
  if (!terse)
    lines.push('Members:', ...[...set.entries.values()].map((stored) => entryText(set, stored, now)));
  return lines.map((line) => `${line}\n`).join('');
}

function entryText(set: FakeSet, { element, options, expires }: Stored, now: number): string {
  const shown = new Map(options);
  if (set.header.has('timeout'))
    shown.set('timeout', String(expires === null ? 0 : Math.ceil((expires - now) / 1000)));
  if (set.header.has('counters')) {
    for (const counter of ['packets', 'bytes']) shown.set(counter, options.get(counter) ?? '0');
  }
  const words = ENTRY_OPTIONS.flatMap((option) => {
    const value = shown.get(option);
    if (value === undefined || (option === 'comment' && value === '')) return [];
    if (option === 'comment') return [`${option} "${value}"`];
    return [value === '' ? option : `${option} ${value}`];
  });
  return [element.parts.join(','), ...words].join(' ');
}
