import type { CompiledRule } from './compiled.ts';

/**
 * Stage 3's values: what a node is told, one JSON document a line. A snapshot is a `node` message, every AddressSet before
 * the rules that name it, and a `bookmark`, before which a receiver acts on nothing. The same lines are the agent's last-good state on disk.
 */
export type Message = NodeMessage | AddressSetMessage | RuleMessage | BookmarkMessage;

export interface NodeMessage {
  readonly type: 'node';
  readonly node: string;
  readonly addresses: readonly string[];
  /** Id of the AddressSet of all nodes. */
  readonly allNodes: string;
}

export interface AddressSetMessage {
  readonly type: 'addressSet';
  readonly id: string;
  readonly description: string;
  readonly dynamic: boolean;
  /** CIDRs and addresses, sorted. */
  readonly members: readonly string[];
}

export interface RuleMessage {
  readonly type: 'rule';
  readonly rule: CompiledRule;
}

/** The snapshot is complete. */
export interface BookmarkMessage {
  readonly type: 'bookmark';
  readonly rules: number;
  readonly addressSets: number;
}
