import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Kernel } from '../apply/netlink/kernel.ts';
import type { CountedTable } from '../record/accounting.ts';
import type { Dataplane, LeftOvers } from './dataplane.ts';

/** A dataplane as all commands see it; its parts are loaded when they are used. */
export interface DataplaneKind {
  /** The name of its text for `compile -o`. */
  readonly output: string;
  /** Whether it finds rules by the rule index, which `compile --stats` describes. */
  readonly hasIndex: boolean;
  text(): Promise<DataplaneText>;
  port(): Promise<DataplanePort>;
}

/** Its rules as text; pure. */
export interface DataplaneText {
  /** A whole ruleset that can be loaded by hand on a node without rules of nodewall. */
  ruleset(state: NodeState, config: Config): string;
  /** The first transaction on such a node. */
  firstTransaction(state: NodeState, config: Config): string;
}

/** Its side to the kernel; needs the native addon. */
export interface DataplanePort {
  /**
   * Whether it works on this machine, as a trial in the kernel shows; what it tried it removes.
   * `lacks`: a part that doesn't work; absent or '': all does.
   */
  trial(
    config: Pick<Config, 'iptables'>,
  ): Promise<
    { readonly works: true; readonly lacks?: string } | { readonly works: false; readonly why: string }
  >;
  /** Changes nothing. Throws CommandError if something that it needs isn't installed. */
  open(config: Config, kernel: Kernel): Promise<OpenDataplane>;
  /** All places where it may have left rules, in an order in which these can be removed. */
  leftOvers(kernel: Kernel): readonly LeftOvers[];
  /** The transaction from the rules in force to a state, as text. */
  plan(planned: Planned): Promise<string>;
  /** The counters of its rules in force, of whatever run; null if there are no rules. */
  counts(kernel: Kernel): Promise<CountedTable | null>;
}

export interface OpenDataplane {
  readonly dataplane: Dataplane;
  /** Names of the remains that this dataplane changes itself, so that they are no left-overs. */
  readonly manages: readonly string[];
  /** For the log. */
  readonly details: Readonly<Record<string, string>>;
}

interface Planned {
  readonly kernel: Kernel;
  readonly state: NodeState;
  readonly config: Config;
  /** The digests that the last agent saved. */
  readonly digests: () => Promise<Readonly<Record<string, string>>>;
}
