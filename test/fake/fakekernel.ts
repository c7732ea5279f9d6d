import { createHash } from 'node:crypto';
import type {
  BatchResult,
  Elements,
  RunResult,
  SetOperation,
  SetSnapshot,
  TableSnapshot,
  Verdict,
} from 'nftables-napi';
import type { Kernel } from '../../agent/apply/kernel.ts';
import { parseAddress, parseCidr, WIDTH } from '../../apis/address.ts';
import { toInterval } from '../../apis/interval.ts';
import { packAddress } from '../../apis/memberset.ts';
import { type NftCommand, parseCommands } from './nftcommand.ts';
import { Refusal, toNftError } from './refusal.ts';
import {
  addChain,
  addElement,
  addRule,
  addSet,
  deleteChain,
  deleteElement,
  deleteSet,
  type FakeSet,
  type FakeTable,
  flushChain,
  newTable,
  renameChain,
  ruleText,
  setOf,
  validate,
} from './table.ts';

/** One transaction that is asked for. */
export interface Call {
  /** Counts transactions from 1. */
  readonly number: number;
  readonly kind: 'run' | 'check' | 'batch';
  /** Lines of text, or a line for each operation of a batch: `add inet nodewall peers-x`. */
  readonly lines: readonly string[];
}

export interface FakeKernel extends Kernel {
  /** The table now; null where there is none. Not to be changed. */
  table(): FakeTable | null;
  generation(): number;
  /** All transactions so far, refused ones among them. */
  readonly calls: readonly Call[];
  /** Is asked before each transaction: what it throws is the answer (see refuse.ts). It may change the kernel, as a stranger does. */
  intercept(hook: (call: Call) => void | Promise<void>): void;
  /** Is told of every commit, of ours and others'. */
  onCommit(listener: (generation: number) => void): void;
  /** Changes the table as a stranger with nft would, past all checks. Makes a generation. */
  tamper(change: (table: FakeTable) => void): void;
}

/** nf_tables, the one table of ours, in memory. */
export function fakeKernel(): FakeKernel {
  let table: FakeTable | null = null;
  let generation = 1;
  const calls: Call[] = [];
  const listeners: ((generation: number) => void)[] = [];
  let hook: (call: Call) => void | Promise<void> = () => undefined;

  function commit(next: FakeTable | null): void {
    table = next;
    generation++;
    for (const listener of listeners) listener(generation);
  }

  /** All of it on a copy, which becomes the table when nothing was refused. */
  async function transact(
    kind: Call['kind'],
    lines: readonly string[],
    work: (copy: FakeTable | null) => FakeTable | null,
  ): Promise<RunResult['generation']> {
    const call = { number: calls.length + 1, kind, lines };
    calls.push(call);
    await hook(call);
    const before = generation;
    const next = work(structuredClone(table));
    if (kind !== 'check' && lines.length > 0) commit(next);
    return { before, after: generation };
  }

  const runText = async (kind: 'run' | 'check', text: string): Promise<RunResult> => ({
    output: '',
    generation: await transact(kind, text.split('\n').slice(0, -1), (copy) => runCommands(copy, text)),
  });
  return {
    table: () => table,
    generation: () => generation,
    calls,
    intercept: (next) => {
      hook = next;
    },
    onCommit: (listener) => void listeners.push(listener),
    tamper(change) {
      const copy = structuredClone(table) ?? newTable();
      change(copy);
      commit(copy);
    },
    commands: {
      run: (text) => runText('run', text),
      check: async (text) => void (await runText('check', text)),
    },
    netlink: {
      async batch(operations): Promise<BatchResult> {
        const lines = operations.map(({ op, family, table: name, set }) => `${op} ${family} ${name} ${set}`);
        const result = await transact('batch', lines, (copy) => runBatch(copy, operations));
        return { generation: result, microseconds: { build: 0, kernel: 0 } };
      },
      elements: async ({ family, table: name, set }) => elementsOf(isOurs(family, name) ? table : null, set),
      snapshot: async (family, name) => snapshotOf(isOurs(family, name) ? table : null, generation),
    },
  };
}

function isOurs(family: string, table: string): boolean {
  return family === 'inet' && table === 'nodewall';
}

function runCommands(copy: FakeTable | null, text: string): FakeTable | null {
  let table = copy;
  const fail = (line: number, error: unknown): never => {
    if (error instanceof Refusal) throw toNftError(error.code, error.message, { line });
    throw error;
  };
  const lines = parseCommands(text, fail);
  // libnftables looks names up before anything is done: what is renamed here has its old name until the end.
  const renames = lines.filter(({ command }) => command.kind === 'renameChain').length;
  if (renames > 0 && renames < lines.length) fail(1, new Refusal('SYNTAX', 'a rename beside other commands'));
  for (const { number, command } of lines) {
    try {
      table = runCommand(table, command);
    } catch (error) {
      fail(number, error);
    }
  }
  try {
    if (table !== null) validate(table);
  } catch (error) {
    fail(lines.at(-1)?.number ?? 1, error);
  }
  return table;
}

function runCommand(table: FakeTable | null, command: NftCommand): FakeTable | null {
  if (command.kind === 'addTable') return table ?? newTable();
  if (table === null) throw new Refusal('ENOENT', 'No such file or directory');
  switch (command.kind) {
    case 'deleteTable':
      return null;
    case 'renameChain':
      renameChain(table, command.name, command.to);
      break;
    case 'addChain':
      addChain(table, command.name, command.base);
      break;
    case 'flushChain':
      flushChain(table, command.name);
      break;
    case 'deleteChain':
      deleteChain(table, command.name);
      break;
    case 'addRule':
      addRule(table, command.chain, command.rule);
      break;
    case 'deleteSet':
    case 'deleteMap':
      deleteSet(table, command.name, command.kind === 'deleteMap');
      break;
    case 'addSet': {
      const set = addSet(table, command);
      for (const text of command.elements) addElement(table, set, toElement(text));
      break;
    }
  }
  return table;
}

/** An element of nft text: an address, a prefix, `address . protocol . port`, or `port : jump chain`. */
function toElement(text: string): { first: string; last: string; verdict?: Verdict } {
  const [, port, kind, chain = ''] = /^(\d+) : (jump|goto) (\S+)$/.exec(text) ?? [];
  if (port !== undefined) {
    const key = Number(port).toString(16).padStart(4, '0');
    return { first: key, last: key, verdict: { kind: kind === 'goto' ? 'goto' : 'jump', chain } };
  }
  const [service = '', protocol = '', number] = text.split(' . ');
  const served = number === undefined ? null : parseAddress(service);
  if (served !== null) {
    const proto = { tcp: 6, udp: 17, sctp: 132 }[protocol]?.toString(16).padStart(2, '0') ?? '??';
    const port16 = Number(number).toString(16).padStart(4, '0');
    const key = `${Buffer.from(packAddress(served)).toString('hex')}${proto}000000${port16}0000`;
    return { first: key, last: key };
  }
  const address = parseAddress(text);
  const cidr = parseCidr(address === null ? text : `${text}/${8 * WIDTH[address.family]}`)?.cidr;
  if (cidr === undefined) throw new Refusal('SYNTAX', `not an element that nodewall writes: ${text}`);
  const [first, last] = Object.values(toInterval(cidr)).map((value: bigint) =>
    Buffer.from(packAddress({ family: cidr.family, value })).toString('hex'),
  );
  return { first: first ?? '', last: last ?? '' };
}

function runBatch(table: FakeTable | null, operations: readonly SetOperation[]): FakeTable | null {
  for (const [index, operation] of operations.entries()) {
    try {
      if (table === null || !isOurs(operation.family, operation.table)) {
        throw new Refusal('ENOENT', 'No such file or directory');
      }
      runOperation(table, operation);
    } catch (error) {
      if (error instanceof Refusal) throw toNftError(error.code, error.message, { operation: index });
      throw error;
    }
  }
  return table;
}

function runOperation(table: FakeTable, operation: SetOperation): void {
  const set = setOf(table, operation.set);
  if (operation.op === 'flush') {
    set.elements.clear();
    set.catchAll = false;
    return;
  }
  const isRanges = 'ranges' in operation;
  if (operation.keyLength !== set.keyLength || isRanges !== set.interval) {
    throw new Refusal('EINVAL', 'Invalid argument');
  }
  const hex = Buffer.from(isRanges ? operation.ranges : operation.keys).toString('hex');
  const width = 2 * operation.keyLength;
  const step = isRanges ? 2 * width : width;
  if (hex.length === 0) throw new Refusal('EINVAL', 'an operation without elements');
  for (let at = 0, i = 0; at < hex.length; at += step, i++) {
    const first = hex.slice(at, at + width);
    const last = isRanges ? hex.slice(at + width, at + step) : first;
    if (operation.op === 'add') addElement(table, set, { first, last, verdict: operation.verdicts?.[i] });
    else deleteElement(set, first, last);
  }
}

function elementsOf(table: FakeTable | null, name: string): Elements | null {
  const set = table?.sets.get(name);
  if (table === null || set === undefined) return null;
  const names = new Map([...table.chains.values()].map((chain) => [chain.handle, chain.name]));
  const sorted = [...set.elements].sort(([a], [b]) => (a < b ? -1 : 1));
  const bytes = (texts: readonly string[]) => new Uint8Array(Buffer.from(texts.join(''), 'hex'));
  return {
    keyLength: set.keyLength,
    keys: bytes(set.interval ? [] : sorted.map(([first]) => first)),
    ranges: bytes(set.interval ? sorted.map(([first, { last }]) => first + last) : []),
    isInterval: set.interval,
    isMap: set.keyLength === 2,
    hasCatchAll: set.catchAll,
    ...(set.keyLength === 2
      ? {
          verdicts: sorted.flatMap(([, { verdict }]) =>
            verdict === null ? [] : [{ kind: verdict.kind, chain: names.get(verdict.chain) ?? '?' }],
          ),
        }
      : {}),
  };
}

/** NFT_SET_INTERVAL and NFT_SET_MAP of linux/netfilter/nf_tables.h. */
const FLAGS = { interval: 4, map: 8 } as const;

function snapshotOf(table: FakeTable | null, generation: number): TableSnapshot | null {
  if (table === null) return null;
  const byHandle = (a: { handle: number }, b: { handle: number }) => a.handle - b.handle;
  return {
    generation,
    isDormant: false,
    chains: [...table.chains.values()].sort(byHandle).map(({ name, handle, base, rules }) => ({
      name,
      handle,
      base,
      rules: rules.map((rule) => ({
        handle: rule.handle,
        comment: rule.comment,
        digest: digestOf(ruleText(table, rule)),
        packets: rule.parts.join('').includes('counter') ? 0n : null,
        bytes: rule.parts.join('').includes('counter') ? 0n : null,
      })),
    })),
    sets: [...table.sets.values()].sort(byHandle).map(toSetSnapshot),
  };
}

function toSetSnapshot({ name, handle, keyLength, interval }: FakeSet): SetSnapshot {
  const isMap = keyLength === 2;
  return {
    name,
    handle,
    keyLength,
    flags: (interval ? FLAGS.interval : 0) | (isMap ? FLAGS.map : 0),
    isMap,
    isInterval: interval,
    isAnonymous: false,
    elementCount: null,
  };
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}
