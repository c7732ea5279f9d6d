import type { RuleSource } from '../../../apis/compiled.ts';
import type { Chain, ChainVerdict, NamedSet, NftRule, VerdictMap } from '../../render/ruleset.ts';

/**
 * One step of a kernel transaction, in the ruleset's words. agent/apply/netlink/encode.ts says it
 * in netlink's, transaction-text.ts in nft's for people. `addSet` and `addMap` make them empty;
 * `addElements` fills.
 */
export type Command =
  | { readonly kind: 'addTable' }
  | { readonly kind: 'deleteTable' }
  | { readonly kind: 'addSet'; readonly set: NamedSet }
  | { readonly kind: 'addMap'; readonly map: VerdictMap }
  /** A set or a map. */
  | { readonly kind: 'deleteSet'; readonly name: string }
  /** Without its rules; of a base chain that is there its policy. */
  | { readonly kind: 'addChain'; readonly chain: Chain }
  /** `counted`: its handle, where Committed.lastCounts is to tell what its rules have counted. */
  | { readonly kind: 'flushChain'; readonly name: string; readonly counted?: number }
  | { readonly kind: 'deleteChain'; readonly name: string }
  /**
   * The kernel renames by handle, a name may be anybody's by then; and with the commit: what comes
   * before or after in the transaction knows the chain by its old name.
   */
  | { readonly kind: 'renameChain'; readonly name: string; readonly handle: number; readonly to: string }
  /** At the end of its chain. `source` is the policy rule it is for. */
  | {
      readonly kind: 'addRule';
      readonly chain: string;
      readonly rule: NftRule;
      readonly source: RuleSource | null;
    }
  | ElementsCommand;

/** Elements of one set or map; all packed in network byte order. */
export interface ElementsCommand {
  readonly kind: 'addElements' | 'deleteElements' | 'flushElements';
  readonly set: string;
  /** Bytes of one key. */
  readonly keyLength: number;
  /**
   * Of an interval set: `keys` are pairs of first and last key. A range is deleted as it was added.
   */
  readonly interval: boolean;
  /** Empty for flushElements. */
  readonly keys: Uint8Array;
  /** Only of verdict maps, when adding: for each key or pair an index into `verdicts`. */
  readonly targets?: Uint32Array;
  readonly verdicts?: readonly ChainVerdict[];
}
