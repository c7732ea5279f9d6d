import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Direction } from '../../apis/objects.ts';
import type { KnownFlow } from '../observe/known-flow.ts';
import type { BaseChain, Chain, Match, NamedSet, NftRule } from '../render/ruleset.ts';
import type { VerdictMap } from '../render/verdict-map.ts';

/** The part of a node's state that an extension has. */
export type ExtensionPart = Pick<NodeState, 'egress'>;

/** Stage 4 of an extension: the messages of its part. */
export interface MessageExtension {
  /**
   * @param before the part in force, while messages are applied to it
   * @param isWhole whether a whole view follows
   */
  draft(before: ExtensionPart, isWhole: boolean): ExtensionDraft;
  /** The reason why a part is not all that a bookmark counts; null: it is. */
  lack(bookmark: { readonly egress?: number }, part: ExtensionPart): string | null;
}

/** Stage 5 of an extension: all functions are pure. */
export interface RuleExtension {
  /** Renders a sequence of states: equal states give equal bytes. */
  renderer(config: Config): (part: ExtensionPart) => ExtraRules;
  /** Tables of its own beside ours; a boot loads them with the rules. */
  tables(part: ExtensionPart): readonly ExtraTable[];
  /** Ids of counters (Chain.ruleId) that belong to no rule of a policy. */
  countIds(part: ExtensionPart): readonly string[];
  /** Whether the exemption `egressTunnel` accepts a flow. */
  isExempt(flow: KnownFlow, config: Config, part: ExtensionPart): boolean;
  /** By name, the base chains that its rules may have had before, and do not need with these. */
  transientBases(chains: ReadonlyMap<string, Chain>): Readonly<Record<string, BaseChain>>;
  /** Names of its network interfaces: their addresses are not the machine's own. */
  readonly links: readonly string[];
}

/** A part of a state while messages are applied to it. */
export interface ExtensionDraft {
  /**
   * Whether the message is one of the extension's; then it is applied. Throws for one that this
   * version does not know whole: the state of before stays in force.
   */
  receive(message: { readonly type: string }): boolean;
  /** The same objects as before where nothing is different. */
  result(): ExtensionPart;
}

/** An extension's part of the table: it is applied in the same transactions as the rules. */
export interface ExtraRules {
  readonly chains: readonly Chain[];
  readonly sets: readonly NamedSet[];
  readonly maps: readonly VerdictMap[];
  /** Rules for packets to the node itself, before all others. */
  readonly toNode: readonly NftRule[];
  /** The matches of its exemption. */
  readonly exempt: Readonly<Record<Direction, readonly (readonly Match[])[]>>;
}

/** A table as `nft list table` would print it, except for counters. */
interface ExtraTable {
  readonly family: 'arp';
  readonly name: string;
  readonly text: string;
}
