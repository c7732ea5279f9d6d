import type { FailsafeEntry } from '../../apis/config.ts';
import type { FlowInventory } from './flow-inventory.ts';

/** Where flows are known: in the agent, or in the file that it saves. */
export interface FlowSource {
  /**
   * The agent's additions to the failsafe list of egress (NodeState.controlPlane); absent: not
   * known.
   */
  readonly controlPlane?: readonly FailsafeEntry[];
  readonly inventory: FlowInventory;
  readonly node: string;
  /**
   * Reads the kernel's connections. When they were last read, in milliseconds since 1970; null:
   * they cannot be.
   */
  readonly read: () => Promise<number | null>;
  /** When that was last; null: never. */
  readonly lastRead: () => number | null;
}
