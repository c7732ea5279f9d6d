import type { BatchOperation } from 'nftables-napi';
import { KEY_LENGTH, type NamedSet } from '../../render/ruleset.ts';
import type { Command, ElementsCommand } from '../plan/command.ts';
import { encodeRule, nftPrintable } from './encode-rule.ts';
import { anonymousSet, namedSet, TABLE_OF, verdictMap } from './encode-set.ts';
import type { SetIds } from './rule-encoding.ts';

/** Commands as netlink operations: one batch, one kernel transaction. */
export interface Encoded {
  readonly operations: readonly BatchOperation[];
  /**
   * The index of the command that an operation (NftError.operation) belongs to. Throws RangeError
   * if there is no such operation.
   */
  commandOf(operation: number): number;
}

/**
 * Encodes commands so that the kernel holds the same as with libnftables 1.0.6 and the text in
 * nft-text.ts: the same expressions, the same anonymous sets. Pure. Throws an Error for a rule that
 * can't match anything (two protocols at once), which libnftables refuses too.
 */
export function encode(commands: readonly Command[]): Encoded {
  const operations: BatchOperation[] = [];
  const origins: number[] = [];
  const ids = setIds();
  for (const [index, command] of commands.entries()) {
    encodeCommand(command, ids, operations);
    while (origins.length < operations.length) origins.push(index);
  }
  return {
    operations,
    commandOf: (operation) => {
      const found = origins[operation];
      if (found === undefined) throw new RangeError(`unknown operation ${operation}`);
      return found;
    },
  };
}

interface NamedSetIds extends SetIds {
  /** Assigns a new id to the set of this name. */
  name(name: string): number;
}

function setIds(): NamedSetIds {
  const named = new Map<string, number>();
  let last = 0;
  const next = () => ++last;
  return {
    next,
    of: (name) => named.get(name),
    name: (name) => {
      named.set(name, next());
      return last;
    },
  };
}

function printableSet(set: NamedSet): NamedSet {
  return set.comment === null ? set : { ...set, comment: nftPrintable(set.comment) };
}

function encodeCommand(command: Command, ids: NamedSetIds, to: BatchOperation[]): void {
  switch (command.kind) {
    case 'addTable':
    case 'deleteTable':
      to.push({ ...TABLE_OF, op: command.kind });
      return;
    case 'addSet':
      to.push(namedSet(printableSet(command.set), ids.name(command.set.name)));
      return;
    case 'addMap':
      to.push(verdictMap(command.map, ids.name(command.map.name)));
      return;
    case 'deleteSet':
      to.push({ ...TABLE_OF, op: 'deleteSet', set: command.name });
      return;
    case 'addChain': {
      const { name, base } = command.chain;
      to.push({ ...TABLE_OF, op: 'addChain', chain: name, ...(base === null ? {} : { base }) });
      return;
    }
    case 'flushChain':
      to.push({ ...TABLE_OF, op: 'flushChain', chain: command.name, counts: command.counted !== undefined });
      return;
    case 'deleteChain':
      to.push({ ...TABLE_OF, op: 'deleteChain', chain: command.name });
      return;
    case 'renameChain':
      to.push({ ...TABLE_OF, op: 'renameChain', handle: command.handle, to: command.to });
      return;
    case 'addRule': {
      const { chain, rule } = command;
      const { sets, expressions } = encodeRule(rule, ids);
      for (const set of sets) to.push(...anonymousSet(set));
      const comment = rule.comment === null ? {} : { comment: nftPrintable(rule.comment) };
      to.push({ ...TABLE_OF, op: 'addRule', chain, expressions, ...comment });
      return;
    }
    case 'addElements':
    case 'deleteElements':
    case 'flushElements':
      to.push(encodeElements(command, ids.of(command.set)));
  }
}

/** Only service sets have keys of these lengths (in bytes), and these are concatenations. */
const CONCATENATED: readonly number[] = Object.values(KEY_LENGTH.service);

function encodeElements(command: ElementsCommand, setId: number | undefined): BatchOperation {
  const { kind, set, keyLength, interval, keys, targets, verdicts, timeouts } = command;
  const target = { ...TABLE_OF, set, ...(setId === undefined ? {} : { setId }) };
  if (kind === 'flushElements') return { ...target, op: 'flush' };
  const changed = {
    ...target,
    op: kind === 'addElements' ? 'add' : 'delete',
    keyLength,
    ...(targets && verdicts ? { verdicts, verdictOf: targets } : {}),
  } as const;
  return interval
    ? { ...changed, ranges: keys, concatenated: CONCATENATED.includes(keyLength) }
    : { ...changed, keys, ...(timeouts === undefined ? {} : { timeouts }) };
}
