import { setTimeout as sleep } from 'node:timers/promises';
import type { Enforced } from '../agent/apply/enforcer.ts';
import { envelopeOf } from '../agent/apply/envelope.ts';
import type { Dataplanes } from '../agent/dataplane/dataplane.ts';
import { prepareExtension } from '../agent/extension/agent.ts';
import { AgentLog } from '../agent/run/agent-log.ts';
import type { AgentMetrics } from '../agent/run/agent-metrics.ts';
import type { AgentOptions } from '../agent/run/agent-options.ts';
import { startEnforcement } from '../agent/run/enforcement.ts';
import type { KeptFlows } from '../agent/run/flow-inventory.ts';
import type { GuardHooks } from '../agent/run/guarded.ts';
import type { InterfaceGroups } from '../agent/run/interface-groups.ts';
import { watchAddresses } from '../agent/run/machine-addresses.ts';
import { rememberedNode, stateStore } from '../agent/run/state-store.ts';
import type { Config } from '../apis/config.ts';
import { type ClusterObjects, NO_OBJECTS, type Problem } from '../apis/objects.ts';
import { validateOptions } from '../apis/validate/object.ts';
import { formatProblem, hasError } from '../apis/validate/problem.ts';
import { apiServerEndpoints } from '../controller/publish/endpoints.ts';
import { fileSource } from '../controller/watch/file-source.ts';
import type { LoadedManifests, Snapshot } from '../controller/watch/source.ts';
import { systemClock } from '../lib/process/clock.ts';
import { CommandError, EXIT, type ExitStatus, exitInTime } from '../lib/process/exit.ts';
import type { Log } from '../lib/process/log.ts';
import { type MachineNode, undeclaredText } from './machine-node.ts';
import { Naming, NodeSight } from './node-sight.ts';
import { savedManifests } from './saved-manifests.ts';

/** Milliseconds until the last valid versions of manifests are saved, at the latest. */
const LONGEST_WAIT = 500;

/** Resolves with the signal that ends the agent; null: another run of it follows. */
export type UntilEnded = () => Promise<NodeJS.Signals | null>;

interface StandaloneOptions {
  readonly options: AgentOptions;
  readonly manifests: readonly string[];
  /** Makes the Node if no manifest declares one; null: one must be declared. */
  readonly machine: MachineNode | null;
  readonly config: Config;
  readonly log: Log;
  readonly dataplanes: Dataplanes;
  readonly interfaces: InterfaceGroups;
  readonly metrics: AgentMetrics;
  readonly flows: KeptFlows | null;
  readonly untilEnded: UntilEnded;
}

/** The result so far. */
interface Outcome {
  snapshot: Snapshot | null;
  /** Whether a manifest declares the node. */
  declared: boolean;
  enforced: Enforced | null;
  failure: Error | null;
  /** Why this machine goes on under its former name; '': it doesn't. */
  renamed: string;
}

/**
 * The stand-alone agent: stages 1, 2 and 4 to 6 in one process, from a directory of manifests.
 * Throws if no manifest declares the node; with `--once` also if the manifests cannot be read or
 * enforcement fails.
 */
export async function runStandalone(parts: StandaloneOptions): Promise<ExitStatus> {
  const { options, manifests, machine, log } = parts;
  const { node, once, stateDir } = options;
  const hasEgress = parts.config.featureGates.EgressGateway === true;
  const saved = stateStore({ stateDir, node: machine === null ? node : null, log, hasEgress });
  const savedVersions = savedManifests({ stateDir, manifests, log });
  const reports = new AgentLog(node, log);
  const manifestReports = manifestLog(node, log);
  const outcome: Outcome = { snapshot: null, declared: true, enforced: null, failure: null, renamed: '' };
  const enforcement = await startEnforcement({
    ...parts,
    saved,
    clock: systemClock,
    reports,
    apiServer: () =>
      apiServerEndpoints(outcome.snapshot?.objects ?? NO_OBJECTS).flatMap(({ addresses }) => addresses),
    enforced: (result) => Object.assign(outcome, { enforced: result, failure: null }),
    failed: (error) => Object.assign(outcome, { failure: error }),
    guard: guardHooks(parts),
    extension: await prepareExtension({ stateDir, config: parts.config, log }),
    unready: (reasons) => sight.unready(reasons, () => deliver(outcome.snapshot)),
  });
  const { config } = enforcement;
  const remembered = await savedVersions.read();
  const source = fileSource(manifests, { remembered, ...validateOptions(config) });
  const { sight, naming } = await nodeSight(parts, config);

  let remembering: Promise<void> = Promise.resolve();
  function deliver(snapshot: Snapshot | null): void {
    if (snapshot === null) return;
    outcome.snapshot = snapshot;
    manifestReports.problems(snapshot);
    if (!snapshot.complete) return;
    const seen = sight.see(snapshot.objects);
    outcome.declared = seen.state !== null;
    outcome.renamed = naming.tell(seen);
    if (outcome.renamed === '')
      manifestReports.node({ read: snapshot.objects, objects: seen.objects, isMachine: machine !== null });
    if (seen.state === null) return;
    enforcement.submit(envelopeOf(seen.state));
    // To format the versions of 10,000 rules takes a while and must not delay the rules' commit.
    const committed = Promise.race([enforcement.idle(), sleep(LONGEST_WAIT, undefined, { ref: false })]);
    remembering = committed.then(() => savedVersions.save(source.remember()));
  }

  async function enforceLastGood(): Promise<boolean> {
    const state = await saved.readState();
    // The manifests may have become readable meanwhile; their content is newer.
    const isNeeded = !outcome.snapshot?.complete || !outcome.declared;
    if (state !== null && isNeeded) enforcement.submit(envelopeOf(state));
    return state !== null;
  }

  function takeUp(snapshot: Snapshot | null): void {
    try {
      deliver(snapshot);
    } catch (error) {
      reports.internalError(error);
    }
  }

  const accepted = naming.untilAccepted(sight, () => takeUp(outcome.snapshot));
  const addresses = await followAddresses(parts, () => takeUp(outcome.snapshot));
  try {
    await source.start(takeUp);
    if (!outcome.snapshot?.complete) manifestReports.waiting(manifests, await enforceLastGood());
    // After a reboot the kernel holds no rules: the last good state is better than none.
    else if (!outcome.declared && !(await enforcement.holdsRules())) await enforceLastGood();
    if (once || !outcome.declared) {
      await enforcement.idle();
      return onceStatus(outcome, parts);
    }
    return await stopped(parts);
  } finally {
    accepted.close();
    await naming.idle();
    await addresses?.close();
    await source.close();
    await enforcement.close();
    await remembering;
    await Promise.all([saved.close(), savedVersions.close()]);
  }
}

async function nodeSight(
  { options: { node, stateDir }, machine, log }: StandaloneOptions,
  config: Config,
): Promise<{ readonly sight: NodeSight; readonly naming: Naming }> {
  const last = machine === null ? null : await rememberedNode(stateDir);
  const sight = new NodeSight({ node, machine, formerName: last?.node ?? null, config, log });
  return { sight, naming: new Naming({ host: node, stateDir, isRemembered: machine !== null, log }, last) };
}

/** Where the Node may be made of this machine, whose addresses change (DHCP). */
async function followAddresses(
  { machine, options: { node, once }, log, metrics }: StandaloneOptions,
  changed: () => void,
): Promise<{ close(): Promise<void> } | null> {
  return machine === null || once ? null : watchAddresses({ node, log, metrics, changed });
}

/** Waits for the end of the run. */
async function stopped({ options: { node }, untilEnded, log }: StandaloneOptions): Promise<ExitStatus> {
  const signal = await untilEnded();
  if (signal !== null) {
    log.info('stopping; the rules stay in force', { node, signal });
    exitInTime(log, { node });
  }
  return EXIT.done;
}

/** With `--once` no process stays to try rules. There is no control plane to probe. */
function guardHooks({ config, options, log }: StandaloneOptions): GuardHooks | null {
  if (config.guard.enabled !== true) return null;
  const [inward] = config.guard.inward;
  if (inward !== undefined) {
    const { name, from } = inward;
    throw new CommandError(
      EXIT.invalid,
      `guard.probes: ${name}: from: ${from} needs a controller; with --manifests the node itself makes the probes, outward. For connections to the node use guard.confirm: Manual, and nodewall confirm from outside`,
    );
  }
  if (!options.once)
    return {
      controlPlane: () => [],
      failsafe: () => [],
      nameServers: () => [],
      ownInward: () => [],
      askInward: null,
      changed() {},
    };
  log.warn('guard.enabled: with --once rules are not tried, because the agent ends', { node: options.node });
  return null;
}

function onceStatus(
  { snapshot, declared, enforced, failure, renamed }: Outcome,
  { options: { node, strict }, machine }: StandaloneOptions,
): ExitStatus {
  if (failure !== null) throw failure;
  if (!declared && machine !== null) {
    const problem = undeclaredText(node, snapshot?.objects ?? NO_OBJECTS);
    throw new CommandError(EXIT.usage, `${problem}; declare it too, or start with --node NAME`);
  }
  if (!declared) {
    throw new CommandError(
      EXIT.invalid,
      `no manifest declares Node ${node}; add one of kind Node with that name, or start with another --node`,
    );
  }
  if (!snapshot?.complete) {
    throw new CommandError(
      EXIT.invalid,
      'the manifests cannot be read; see the log. The rules in force stay',
    );
  }
  if (renamed !== '') throw new CommandError(EXIT.invalid, renamed);
  // Rules that the kernel refused are in the log.
  if (enforced !== null && enforced.failed.size > 0) return EXIT.refused;
  return strict && hasError(snapshot.problems) ? EXIT.invalid : EXIT.done;
}

const LEVELS = { error: 'error', warning: 'warn', notice: 'info' } as const;

interface NodeObjects {
  readonly read: ClusterObjects;
  readonly objects: ClusterObjects;
  readonly isMachine: boolean;
}

/**
 * The stand-alone agent's log of its manifests: each problem once when it appears and once when it
 * is solved.
 */
function manifestLog(node: string, log: Log) {
  let known = new Map<string, Problem>();
  /** Policies with a rollout, as logged. */
  let staged: ReadonlySet<string> = new Set();
  let made: ClusterObjects['nodes'][number] | undefined;

  function logProblems({ problems, objects }: Pick<LoadedManifests, 'problems' | 'objects'>): void {
    const now = new Map(problems.map((problem) => [formatProblem(problem), problem]));
    const valid = new Set(objects.policies.map(({ name }) => name));
    for (const [line, problem] of now) {
      if (!known.has(line))
        log.log(LEVELS[problem.severity], problemText(problem), { node, ...problemFields(problem, valid) });
    }
    for (const [line, problem] of known) {
      if (!now.has(line)) log.info('problem solved', { node, ...problemFields(problem, valid) });
    }
    known = now;
  }

  return {
    problems({ problems, objects }: LoadedManifests): void {
      const now = objects.policies.flatMap(({ name, spec }) => (spec.rollout === undefined ? [] : name));
      for (const policy of now)
        if (!staged.has(policy))
          log.info('applied at once: only a controller rolls a policy out in steps', {
            node,
            stage: 'watch',
            policy,
          });
      staged = new Set(now);
      logProblems({ problems, objects });
    },
    waiting(manifests: readonly string[], haveLastGood: boolean): void {
      const meanwhile = haveLastGood ? 'the saved state is enforced' : 'nothing changes';
      log.warn(`cannot read the manifests; ${meanwhile} until they can be read`, {
        node,
        stage: 'watch',
        manifests,
      });
    },
    /**
     * @param read the objects of the manifests; `objects` are these, or with this machine's Node
     * @param isMachine the node is this machine, without --node
     */
    node({ read, objects, isMachine }: NodeObjects): void {
      const own = objects.nodes.find(({ name }) => name === node);
      if (own === undefined) {
        const problem = isMachine ? undeclaredText(node, read) : `no manifest declares Node ${node}`;
        log.error(`${problem}; the rules in force stay`, { node, stage: 'compile' });
      } else if (objects !== read && own !== made) {
        const { addresses, labels } = own;
        log.info('no manifest declares a Node: this machine is the Node', {
          node,
          stage: 'compile',
          addresses,
          labels,
        });
      }
      made = own;
    },
  };
}

function problemText({ kind, name, path, message }: Problem): string {
  const object = kind === '' ? '' : `${kind}/${name}: `;
  return `${object}${path === '' ? '' : `${path}: `}${message}`;
}

function problemFields(
  { severity, kind, name, file, line, path }: Problem,
  valid: ReadonlySet<string>,
): object {
  const where = { stage: 'watch', file, line, path: path === '' ? undefined : path };
  if (kind !== 'ClusterNetworkPolicy' || severity !== 'error') return where;
  return { ...where, policy: name, inForce: valid.has(name) ? 'its last valid version' : 'nothing' };
}
