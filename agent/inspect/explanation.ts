import type { NodeState } from '../../apis/compiled.ts';
import type { Config, FailsafeEntry } from '../../apis/config.ts';
import { type Explanation, type Flow, parseFlow } from '../../apis/flow.ts';
import { fixedNames, nameResolver } from '../../apis/names.ts';
import { explain } from '../observe/explain.ts';
import { withLocalPodsNow } from '../run/interface-groups.ts';
import { knownNames } from './known-names.ts';
import { readState } from './saved-state.ts';

/** The verdict of the rules in force for a flow. */
export interface NodeExplanation {
  readonly node: string;
  readonly explanation: Explanation;
}

/** Where the rules in force are known. */
export interface RulesInForce {
  readonly stateDir: string;
  readonly config: Config;
  /**
   * The agent's additions to the failsafe list of egress (NodeState.controlPlane); absent: nothing.
   */
  readonly controlPlane?: readonly FailsafeEntry[];
}

/**
 * Evaluates the rules in force, with the addresses of names as last saved. While a change is tried
 * (guarded apply), those are the last confirmed ones. Throws a CommandError if no rule was ever in
 * force.
 */
export async function explanationOf(
  { stateDir, config, controlPlane = [] }: RulesInForce,
  flow: Flow,
): Promise<NodeExplanation> {
  const state = await towards(await withNames(await readState(stateDir), stateDir), config, flow);
  return {
    node: state.node,
    explanation: explain({ ...state, controlPlane }, config)(flow, { considered: true }),
  };
}

/**
 * The state with the destinations that are routed to local pods, if the flow does not say by which
 * interface it leaves. Where the kernel does not tell them, it leaves by none of pods.
 */
async function towards(state: NodeState, config: Config, flow: Flow): Promise<NodeState> {
  if (flow.direction !== 'egress' || flow.interfaceGroup !== undefined) return state;
  return withLocalPodsNow(state, config).catch(() => state);
}

/** The state with the addresses of names as last saved. */
export async function withNames(state: NodeState, stateDir: string): Promise<NodeState> {
  const { names } = await knownNames(stateDir);
  const addresses = names.map(
    ({ name, addresses: known }) => [name, known.map(({ address }) => address)] as const,
  );
  return nameResolver()(state, fixedNames(new Map(addresses)));
}

/** A host flow of parsed JSON. Throws a TypeError that says what is wrong. */
export function hostFlow(raw: unknown, { interfaceGroups }: Config): Flow {
  const flow = parseFlow(raw);
  const { interfaceGroup: group } = flow;
  if (typeof group !== 'string' || Object.hasOwn(interfaceGroups, group)) return flow;
  const known = Object.keys(interfaceGroups).join(', ');
  throw new TypeError(`interfaceGroup: no group ${JSON.stringify(group)}; known: ${known}`);
}
