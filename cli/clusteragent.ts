import { networkInterfaces } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Enforced } from '../agent/apply/enforcer.ts';
import { policyKey } from '../agent/apply/substitute.ts';
import { type ControllerAddress, controllerClient } from '../agent/receive/controllerclient.ts';
import { type Folded, fold } from '../agent/receive/fold.ts';
import { hostAddresses } from '../agent/receive/hostaddresses.ts';
import { reporter } from '../agent/receive/reporter.ts';
import { followController, type Remote } from '../agent/receive/stream.ts';
import type { NodeState } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import type { FailingRule, NodeReport } from '../apis/stream.ts';
import type { AgentMetrics } from './agentmetrics.ts';
import type { AgentOptions } from './agentoptions.ts';
import { clusterFile } from './clusterfile.ts';
import { contactLog } from './contactlog.ts';
import { controllerAddresses, controllerPort, withControlPlane } from './controllerfailsafe.ts';
import { type Dataplanes, holdRules, removeAll, warnHidden } from './dataplane.ts';
import { type Enforcement, startEnforcement } from './enforcement.ts';
import { EXIT, type ExitStatus } from './exit.ts';
import { allFailing, failingRules } from './failingrules.ts';
import { type InterfaceGroups, keepInterfaceGroups, releaseInterfaceGroups } from './interfacegroups.ts';
import { lastGood } from './lastgood.ts';
import type { Log } from './log.ts';
import { progress } from './progress.ts';
import { untilStopped } from './stopped.ts';
import { systemClock } from './systemclock.ts';
import { VERSION } from './version.ts';

/** So long an agent that finds rules in force waits for the controller (milliseconds), before it looks after them as they were. */
const PATIENCE = 10_000;
/** A name server is waited for so long at start (milliseconds), where no address of the controller is known. */
const RESOLVE_PATIENCE = 2_000;
/** What failed but for the enforcer itself is tried again after so long (milliseconds). */
const RETRY = 10_000;

interface Parts {
  readonly options: AgentOptions;
  readonly controller: ControllerAddress;
  readonly config: Config;
  /** False where this machine has the feature gate off, whatever the cluster says. */
  readonly isAllowed: boolean;
  readonly log: Log;
  readonly dataplanes: Dataplanes;
  readonly metrics: AgentMetrics;
}

/** What has come of it so far. */
interface Outcome {
  /** As of the last bookmark. */
  folded: Folded | null;
  submitted: NodeState | null;
  /** As it was submitted. */
  inForce: NodeState | null;
  policies: number;
  failing: readonly FailingRule[];
  /** Null before it is known. */
  enabled: boolean | null;
}

/** The agent of a cluster: stages 4 to 6, from the controller's stream. Ends when it is told to; rules stay. */
export async function runClusterAgent(parts: Parts): Promise<ExitStatus> {
  const { options, controller, isAllowed, log, dataplanes, metrics } = parts;
  const { node, stateDir } = options;
  const saved = lastGood({ stateDir, node, manifests: [], log });
  const memory = clusterFile(stateDir, log);
  const remembered = await memory.read();
  // Where what the cluster said of the gate can't be read, what was in force last is.
  const last = remembered?.enabled === false ? null : await saved.readState();
  const reports = progress(node, log);
  const contact = contactLog({ node, controller: controller.url.host, log });
  const outcome: Outcome = {
    folded: null,
    submitted: null,
    inForce: null,
    policies: 0,
    failing: [],
    enabled: isAllowed ? null : false,
  };
  const revisions = new WeakMap<NodeState, string>();
  /** Of the controller, for the failsafe list. */
  let addresses = remembered?.controllerAddresses ?? [];
  let endpoints = remembered?.endpoints ?? [];
  const config = (): Config =>
    withControlPlane(parts.config, [...endpoints, { port: controllerPort(controller.url), addresses }]);
  // Before anything else: what the kernel refuses this process ends it here.
  const holdsRules = await holdRules(dataplanes, node, log);

  let interfaces: InterfaceGroups | null = null;
  let enforcement: Enforcement | null = null;
  /** What is enforced while nothing was heard of the controller. */
  let meanwhile: NodeState | null = null;
  /** What the enforcement was started with is no longer so. */
  let isStale = false;
  let isDisabled = false;
  /** One thing after another: starting and stopping to enforce take their time. */
  let work: Promise<void> = Promise.resolve();
  let retry: NodeJS.Timeout | undefined;

  /** Brings about what is wanted now, whatever led to it. */
  function settle(): void {
    work = work.then(bringAbout).catch((error: unknown) => {
      reports.internalError(error);
      clearTimeout(retry);
      retry = setTimeout(settle, RETRY).unref();
    });
  }

  async function bringAbout(): Promise<void> {
    const { folded: now } = outcome;
    if (!isAllowed || now?.enabled === false) return isDisabled ? undefined : await disable();
    const state = now?.state ?? meanwhile;
    if (state === null) return;
    if (isStale) await stop();
    isStale = false;
    await enforce(state);
  }

  async function start(): Promise<Enforcement> {
    interfaces ??= await keepInterfaceGroups({ options, config: config(), log });
    const started = await startEnforcement({
      options,
      config: config(),
      log,
      dataplanes,
      interfaces,
      saved,
      events: {
        unrecorded: reports.unrecorded,
        drifted(differences) {
          reports.drifted(differences);
          metrics.drifted();
        },
        enforced(result) {
          reports.enforced(result);
          metrics.enforced(result);
          enforced(result, started);
        },
        failed(error, retryIn) {
          reports.failed(error, retryIn);
          metrics.failed();
          if (outcome.submitted === null) return;
          outcome.failing = allFailing(outcome.submitted, outcome.inForce, error);
          report.changed(true);
        },
      },
    });
    metrics.counts(started.totals);
    return started;
  }

  function enforced(result: Enforced, by: Enforcement): void {
    const wanted = by.submitted(result.wanted);
    const hasNews =
      outcome.inForce?.rules !== wanted.rules || outcome.failing.length > 0 || result.failed.size > 0;
    outcome.inForce = wanted;
    outcome.failing = failingRules(result);
    outcome.policies = new Set(result.state.rules.map(policyKey)).size;
    metrics.revision(revisionInForce());
    report.changed(hasNews);
  }

  async function stop(): Promise<void> {
    await enforcement?.close();
    enforcement = null;
    outcome.submitted = null;
    metrics.counts(null);
  }

  async function enforce(state: NodeState): Promise<void> {
    enforcement ??= await start();
    isDisabled = false;
    outcome.enabled = true;
    metrics.enabled(true);
    if (state === outcome.submitted) return;
    outcome.submitted = state;
    enforcement.submit(state);
  }

  /** Feature gate off: nothing is enforced, and nothing of ours stays in the kernel. */
  async function disable(): Promise<void> {
    await stop();
    const { removed, hidden } = await removeAll(dataplanes.all);
    warnHidden(log, node, hidden);
    await interfaces?.close();
    interfaces = null;
    const released = await releaseInterfaceGroups(stateDir, parts.config, log);
    isDisabled = true;
    Object.assign(outcome, { enabled: false, inForce: null, policies: 0, failing: [] });
    metrics.enabled(false);
    metrics.revision(null);
    const gate = isAllowed ? 'off in the cluster' : 'off on this machine';
    log.info('disabled', {
      node,
      removed,
      interfaces: released.interfaces,
      gate: `NodeNetworkPolicy ${gate}`,
    });
    report.changed(true);
  }

  function folded(now: Folded): void {
    const before = outcome.folded;
    outcome.folded = now;
    revisions.set(now.state, now.revision);
    metrics.bookmark(now.revision);
    metrics.revision(revisionInForce());
    const isElsewhere = !isDeepStrictEqual(now.endpoints, endpoints);
    endpoints = now.endpoints;
    const wasAway = contact.awaySince() !== null;
    contact.bookmark(now.revision);
    if (wasAway || isElsewhere || before?.enabled !== now.enabled) remember();
    if (isElsewhere) renewFailsafe();
    report.changed(before === null);
    if (before?.state !== now.state || before.enabled !== now.enabled) settle();
  }

  function connected({ address }: Remote): void {
    metrics.connected(true);
    contact.connected();
    report.changed(true);
    if (address !== '') know([...addresses, address]);
  }

  function know(found: readonly string[]): void {
    const now = [...new Set(found)].sort();
    if (now.join() === addresses.join()) return;
    addresses = now;
    remember();
    renewFailsafe();
  }

  function renewFailsafe(): void {
    if (enforcement === null) return;
    log.info('the control plane has other addresses; the failsafe list follows', {
      node,
      addresses,
      endpoints,
    });
    isStale = true;
    settle();
  }

  /** Names may not be resolvable before the node has a network; connections tell the address too. */
  async function learnAddresses(): Promise<void> {
    try {
      know(await controllerAddresses(controller.url));
    } catch (error) {
      log.warn("the controller's name cannot be resolved", {
        node,
        controller: controller.url.host,
        error: (error as Error).message,
      });
    }
  }

  function remember(): void {
    const { folded: now } = outcome;
    const enabled = now?.enabled ?? remembered?.enabled;
    if (enabled === undefined) return;
    memory.save({ enabled, controllerAddresses: addresses, endpoints, awaySince: contact.awaySince() });
  }

  function revisionInForce(): string | null {
    return outcome.inForce === null ? null : (revisions.get(outcome.inForce) ?? null);
  }

  function statusNow(): NodeReport {
    return {
      node,
      revision: outcome.folded?.revision ?? null,
      enforced: revisionInForce(),
      enabled: outcome.enabled === true,
      failing: outcome.failing,
      policies: outcome.policies,
      hostAddresses: hostAddresses(networkInterfaces()),
      version: VERSION,
      dataplane: dataplanes.chosen.name,
      time: new Date().toISOString(),
    };
  }

  const client = controllerClient(controller, `nodewall-agent/${VERSION}`, systemClock);
  const common = { node, client, clock: systemClock, random: Math.random };
  const report = reporter({
    ...common,
    report: statusNow,
    done(error) {
      if (error === null) metrics.reported();
      contact.reported(error);
    },
  });
  const learning = learnAddresses();
  if (addresses.length === 0)
    await Promise.race([learning, sleep(RESOLVE_PATIENCE, undefined, { ref: false })]);
  const enforceLast = (): void => {
    if (last === null || !isAllowed || outcome.folded !== null) return;
    log.info('the last good state is enforced until the controller is there', {
      node,
      rules: last.rules.length,
    });
    meanwhile = last;
    settle();
  };
  if (!isAllowed) settle();
  // The machine may have just started: what it had is better than nothing. Rules that are there are as good as what is remembered of them.
  if (!holdsRules) enforceLast();
  const patience = setTimeout(enforceLast, PATIENCE).unref();
  const stream = followController({
    ...common,
    fold: fold(node, last),
    events: {
      connected,
      folded,
      disconnected(error, retryIn) {
        metrics.connected(false);
        contact.disconnected(error, retryIn);
        remember();
      },
    },
  });
  const signal = await untilStopped();
  log.info('stopping; the rules stay', { node, signal });
  clearTimeout(patience);
  clearTimeout(retry);
  await stream.close();
  await report.close();
  client.close();
  await work;
  await end();
  return EXIT.done;

  async function end(): Promise<void> {
    await stop();
    await interfaces?.close();
    await memory.flush();
  }
}
