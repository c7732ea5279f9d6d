import type { RuleSource } from '../../../apis/compiled.ts';
import { baseLines, isIdentifier, mapLines, ruleText, setLines } from '../../render/nft-text.ts';
import { type Chain, type NamedSet, type NftRule, TABLE } from '../../render/ruleset.ts';
import type { ChainVerdict, VerdictMap } from '../../render/verdict-map.ts';

/**
 * One step of a kernel transaction, in terms of the ruleset. agent/apply/netlink/encode.ts turns it
 * into netlink operations, commandText into nft's language for people. `addSet` and
 * `addMap` make an empty object; `addElements` fills it.
 */
export type Command =
  | { readonly kind: 'addTable' }
  | { readonly kind: 'deleteTable' }
  | { readonly kind: 'addSet'; readonly set: NamedSet }
  | { readonly kind: 'addMap'; readonly map: VerdictMap }
  /** Deletes a set or a map. */
  | { readonly kind: 'deleteSet'; readonly name: string }
  /** Adds a chain without its rules; sets the policy of a base chain that exists. */
  | { readonly kind: 'addChain'; readonly chain: Chain }
  /**
   * `counted`: the handle of the chain, if Committed.lastCounts is to report the counters of its
   * rules.
   */
  | { readonly kind: 'flushChain'; readonly name: string; readonly counted?: number }
  | { readonly kind: 'deleteChain'; readonly name: string }
  /**
   * The kernel finds the chain by its handle, since by then the name may belong to another chain.
   * It renames at the commit: all other commands of the transaction refer to the chain by its old
   * name.
   */
  | { readonly kind: 'renameChain'; readonly name: string; readonly handle: number; readonly to: string }
  /** Adds the rule at the end of its chain. `source` is the policy rule it implements. */
  | {
      readonly kind: 'addRule';
      readonly chain: string;
      readonly rule: NftRule;
      readonly source: RuleSource | null;
    }
  | ElementsCommand;

/** Elements of one set or map, all packed in network byte order. */
export interface ElementsCommand {
  readonly kind: 'addElements' | 'deleteElements' | 'flushElements';
  readonly set: string;
  /** Length of one key in bytes. */
  readonly keyLength: number;
  /**
   * For an interval set: `keys` are pairs of first and last key. A range is deleted as it was
   * added.
   */
  readonly interval: boolean;
  /** Empty for flushElements. */
  readonly keys: Uint8Array;
  /** Only when adding to verdict maps: for each key or pair an index into `verdicts`. */
  readonly targets?: Uint32Array;
  readonly verdicts?: readonly ChainVerdict[];
  /** Only when adding to sets with a timeout: milliseconds, for each key. */
  readonly timeouts?: readonly number[];
}

const table = `${TABLE.family} ${TABLE.name}`;

/** A command in nft's language, for people; elements are counted, not listed. */
export function commandText(command: Command): string {
  switch (command.kind) {
    case 'addTable':
      return `add table ${table}`;
    case 'deleteTable':
      return `delete table ${table}`;
    case 'addSet':
      return `add set ${table} ${nameText(command.set.name)} { ${setLines(command.set, false).join('; ')}; }`;
    case 'addMap':
      return `add map ${table} ${nameText(command.map.name)} { ${mapLines(command.map, false).join('; ')}; }`;
    case 'deleteSet':
      return `delete set ${table} ${nameText(command.name)}`;
    case 'addChain':
      return `add chain ${table} ${nameText(command.chain.name)}${baseText(command.chain)}`;
    case 'flushChain':
      return `flush chain ${table} ${nameText(command.name)}`;
    case 'deleteChain':
      return `delete chain ${table} ${nameText(command.name)}`;
    case 'renameChain':
      return `rename chain ${table} ${nameText(command.name)} ${nameText(command.to)}`;
    case 'addRule':
      return `add rule ${table} ${nameText(command.chain)} ${ruleText(command.rule)}`;
    case 'addElements':
    case 'deleteElements':
      return `# ${elementCount(command)} elements ${command.kind === 'addElements' ? 'added to' : 'deleted from'} ${nameText(command.set)}`;
    case 'flushElements':
      return `flush set ${table} ${nameText(command.set)}`;
  }
}

/** The number of keys or ranges. */
export function elementCount({ keys, keyLength, interval }: ElementsCommand): number {
  return keys.length / (interval ? 2 * keyLength : keyLength);
}

/** Third parties can choose names through netlink that nft's language can't express. */
function nameText(name: string): string {
  return isIdentifier(name) ? name : JSON.stringify(name);
}

function baseText(chain: Chain): string {
  const lines = baseLines(chain);
  return lines.length > 0 ? ` { ${lines.join(' ')} }` : '';
}
