import { type Exec, Ipset } from 'ipset-ts';
import { createFakeExec } from 'ipset-ts/fake';
import { type IptablesTools, toIptablesError } from '../../agent/apply/iptables/tools.ts';
import type { Family } from '../../lib/net/address.ts';

export interface FakeIptables {
  readonly tools: IptablesTools;
  /** What runs ipset. */
  readonly exec: Exec;
  /** The texts of all restores so far, refused ones among them. */
  readonly restores: readonly { readonly family: Family; readonly text: string }[];
  /** Packets come: these are added to what a rule has counted. */
  count(family: Family, rule: string, packets: number, bytes: number): void;
}

interface FakeIptablesOptions {
  /** How iptables-save shows a rule; as it was written by default. */
  readonly shows?: (text: string) => string;
}

interface FakeRule {
  readonly text: string;
  packets: number;
  bytes: number;
}

type FakeTable = Map<string, FakeRule[]>;

const BUILTINS: Readonly<Record<string, readonly string[]>> = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
};
const TARGETS = ['ACCEPT', 'DROP', 'RETURN', 'REJECT', 'NFLOG', 'MARK', 'MASQUERADE'];

/**
 * iptables, ip6tables and ipset over one kernel without rules, in memory: as strict as they are, in
 * the nft variant's words. Rules are text.
 */
export function fakeIptables({ shows = (text) => text }: FakeIptablesOptions = {}): FakeIptables {
  const families: Record<Family, Map<string, FakeTable>> = { 4: new Map(), 6: new Map() };
  const restores: { family: Family; text: string }[] = [];
  const sets = createFakeExec();
  let processes = 0;

  const exec: Exec = async (args, { stdin: given } = {}) => {
    processes++;
    // Parts can be read once.
    const stdin = given === undefined || typeof given === 'string' ? given : [...given].join('');
    const options = stdin === undefined ? {} : { stdin };
    const lines = stdin === undefined ? [args.join(' ')] : stdin.split('\n');
    const used = lines.findIndex((line) => /\bdestroy /.test(line) && isUsed(line.split(' ').at(-1) ?? ''));
    if (used < 0) return sets(args, options);
    // What stands before it is done.
    if (used > 0) await sets(args, { stdin: lines.slice(0, used).join('\n') });
    const where = stdin === undefined ? '' : `Error in line ${used + 1}: `;
    return {
      code: 1,
      stdout: '',
      stderr: `ipset v7.17: ${where}Set cannot be destroyed: it is in use by a kernel component\n`,
    };
  };

  function isUsed(set: string): boolean {
    const rules = Object.values(families).flatMap((tables) =>
      [...tables.values()].flatMap((table) => [...table.values()].flat()),
    );
    return rules.some(({ text }) => text.includes(`--match-set ${set} `));
  }

  async function restore(family: Family, text: string): Promise<void> {
    processes++;
    restores.push({ family, text });
    const known = new Set(await new Ipset(sets).names());
    const fail = (line: number, said: string) =>
      toIptablesError(
        'iptables-restore',
        2,
        `iptables-restore v1.8.9 (nf_tables): ${said}\nError occurred at line: ${line}\n`,
      );
    let open: { name: string; table: FakeTable } | null = null;
    for (const [at, line] of text.split('\n').entries()) {
      try {
        if (line === '') continue;
        if (line.startsWith('*'))
          open = { name: line.slice(1), table: copyOf(families[family], line.slice(1)) };
        else if (open === null) throw new Error('no command specified');
        else if (line === 'COMMIT') {
          checkTargets(open.table);
          families[family].set(open.name, open.table);
          open = null;
        } else runLine(open.table, line, known);
      } catch (error) {
        throw fail(at + 1, (error as Error).message);
      }
    }
  }

  return {
    tools: {
      variant: 'auto',
      async save(family) {
        processes++;
        return savedText(families[family], shows);
      },
      restore,
      ipset: new Ipset(exec),
      processes: () => processes,
    },
    exec,
    restores,
    count(family, rule, packets, bytes) {
      const rules = [...families[family].values()].flatMap((table) =>
        [...table].flatMap(([chain, list]) => list.map((one) => ({ name: `${chain} ${one.text}`, one }))),
      );
      const found = rules.find(({ name }) => name === rule)?.one;
      if (found === undefined) throw new Error(`no rule ${rule}`);
      found.packets += packets;
      found.bytes += bytes;
    },
  };
}

function copyOf(tables: ReadonlyMap<string, FakeTable>, name: string): FakeTable {
  const builtins = BUILTINS[name];
  if (builtins === undefined) throw new Error(`Table '${name}' does not exist`);
  const table = tables.get(name) ?? new Map(builtins.map((chain) => [chain, []]));
  return structuredClone(table);
}

function runLine(table: FakeTable, line: string, sets: ReadonlySet<string>): void {
  const [, chain] = /^:(\S+) - \[0:0\]$/.exec(line) ?? [];
  if (chain !== undefined) {
    if (Buffer.byteLength(chain) > 28)
      throw new Error(`chain name '${chain}' too long (must be under 29 chars)`);
    table.set(chain, []);
    return;
  }
  const [, packets = '0', bytes = '0', verb = '', name = '', number, rest = ''] =
    /^(?:\[(\d+):(\d+)\] )?-([AIDX]) (\S+)(?: (\d+))? ?(.*)$/.exec(line) ?? [];
  const rules = table.get(name);
  if (rules === undefined) throw new Error('No chain/target/match by that name.');
  const rule = { text: rest, packets: Number(packets), bytes: Number(bytes) };
  if (verb === 'A' || verb === 'I') {
    const unknown = [...rest.matchAll(/--match-set (\S+)/g)].find(([, set = '']) => !sets.has(set));
    if (unknown !== undefined) throw new Error(`Set ${unknown[1]} doesn't exist.`);
    const [bogus] = /--bogus\b/.exec(rest) ?? [];
    if (bogus !== undefined) throw new Error(`unknown option "${bogus}"`);
  }
  switch (verb) {
    case 'A':
      rules.push(rule);
      break;
    case 'I':
      rules.splice(Number(number) - 1, 0, rule);
      break;
    case 'D': {
      const at = rules.findIndex(({ text }) => text === rest);
      if (at < 0) throw new Error('Bad rule (does a matching rule exist in that chain?).');
      rules.splice(at, 1);
      break;
    }
    case 'X':
      if (rules.length > 0) throw new Error(`CHAIN_DEL failed (Device or resource busy): chain ${name}`);
      table.delete(name);
      break;
    default:
      throw new Error('no command specified');
  }
}

function checkTargets(table: FakeTable): void {
  for (const { text } of [...table.values()].flat()) {
    const [, target] = / -[jg] (\S+)/.exec(` ${text.replaceAll(/"[^"]*"/g, '""')}`) ?? [];
    if (target === undefined || TARGETS.includes(target) || table.has(target)) continue;
    throw new Error(`Chain '${target}' does not exist`);
  }
}

function savedText(tables: ReadonlyMap<string, FakeTable>, shows: (text: string) => string): string {
  const parts = [...tables].map(([name, table]) => {
    const chains = [...table.keys()].map(
      (chain) => `:${chain} ${BUILTINS[name]?.includes(chain) ? 'ACCEPT' : '-'} [0:0]`,
    );
    const rules = [...table].flatMap(([chain, list]) =>
      list.map(
        ({ text, packets, bytes }) => `[${packets}:${bytes}] ${`-A ${chain} ${shows(text)}`.trimEnd()}`,
      ),
    );
    return [`# Generated by iptables-save`, `*${name}`, ...chains, ...rules, 'COMMIT', ''].join('\n');
  });
  return parts.join('');
}
