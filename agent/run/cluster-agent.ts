import { networkInterfaces } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { FailingRule, NodeReport } from '../../apis/stream.ts';
import { systemClock } from '../../lib/process/clock.ts';
import { EXIT, type ExitStatus } from '../../lib/process/exit.ts';
import type { Log } from '../../lib/process/log.ts';
import { untilStopped } from '../../lib/process/stopped.ts';
import { VERSION } from '../../lib/process/version.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { policyKey } from '../apply/plan/substitute.ts';
import { type Dataplanes, holdRules, removeAll, warnHidden } from '../dataplane/dataplane.ts';
import { lookupOrLast } from '../receive/address-lookup.ts';
import type { ApiServer } from '../receive/api-server.ts';
import { controllerClient } from '../receive/controller-client.ts';
import { FoldError, type Folded, fold } from '../receive/fold.ts';
import { hostAddresses } from '../receive/host-addresses.ts';
import type { Seen } from '../receive/outage.ts';
import { reporter } from '../receive/reporter.ts';
import { followController, type Remote } from '../receive/stream.ts';
import { watchAddresses } from './address-watch.ts';
import { agentLog } from './agent-log.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import type { AgentOptions } from './agent-options.ts';
import { controllerAuthorities, loggedOutage } from './api-access.ts';
import { clusterFile } from './cluster-file.ts';
import { ComeBack, PATIENCE as ON_PATIENCE } from './come-back.ts';
import { contactLog } from './contact-log.ts';
import { ControlPlanePlaces } from './control-plane-places.ts';
import { type Enforcement, startEnforcement } from './enforcement.ts';
import { type InterfaceGroups, keepInterfaceGroups, releaseInterfaceGroups } from './interface-groups.ts';
import type { OffSwitch } from './off-switch.ts';
import { allFailing, failingRules, LONGEST_REASON } from './rule-errors.ts';
import { stateStore } from './state-store.ts';
import { type Wanted, WantedState } from './wanted-state.ts';

/** So long an agent that finds rules in force waits for the controller (milliseconds), before it looks after them as they were. */
const PATIENCE = 10_000;
/** A name server is waited for so long at start (milliseconds), where no address of the controller is known. */
const RESOLVE_PATIENCE = 2_000;
/** What failed but for the enforcer itself is tried again after so long (milliseconds). */
const RETRY = 10_000;

/** The controller as the command line names it. */
export interface ControllerOptions {
  readonly url: URL;
  readonly tokenFile: string;
  /** Null: the API server has its CA. */
  readonly caFile: string | null;
}

interface Parts {
  readonly options: AgentOptions;
  readonly controller: ControllerOptions;
  /** Null: this agent may ask none. */
  readonly api: ApiServer | null;
  readonly off: OffSwitch;
  readonly config: Config;
  /** False where this machine has the feature gate off, whatever the cluster says. */
  readonly isAllowed: boolean;
  readonly log: Log;
  readonly dataplanes: Dataplanes;
  readonly metrics: AgentMetrics;
}

/** What has come of it so far. */
interface Outcome {
  submitted: NodeState | null;
  /** As it was submitted. */
  inForce: NodeState | null;
  policies: number;
  failing: readonly FailingRule[];
  /** Null before it is known. */
  enabled: boolean | null;
  /** Of the controller's view, while that can't be followed. */
  viewError: string | null;
}

type Why = Extract<Wanted, { kind: 'none' }>['why'];

/** Why nothing is enforced, for the log. */
const GATES: Readonly<Record<Why, string>> = {
  machine: 'NodeNetworkPolicy off on this machine',
  gate: 'NodeNetworkPolicy off in the cluster',
  off: 'nodewall off',
};

/** The agent of a cluster: stages 4 to 6, from the controller's stream. Ends when it is told to; rules stay. */
export async function runClusterAgent(parts: Parts): Promise<ExitStatus> {
  const { options, controller, api, off, isAllowed, log, dataplanes, metrics } = parts;
  const { node, stateDir } = options;
  const saved = stateStore({ stateDir, node, log });
  const memory = clusterFile(stateDir, log);
  const remembered = await memory.read();
  const last = await saved.readState();
  // Where what the cluster said of the gate can't be read, what was in force last is.
  const want = new WantedState({ isAllowed, last, rememberedGate: remembered?.enabled ?? null });
  const reports = agentLog(node, log);
  const contact = contactLog({ node, controller: controller.url.host, log });
  const outcome: Outcome = {
    submitted: null,
    inForce: null,
    policies: 0,
    failing: [],
    enabled: isAllowed ? null : false,
    viewError: null,
  };
  const revisions = new WeakMap<NodeState, string>();
  const places = new ControlPlanePlaces({
    node,
    url: controller.url,
    apiServer: api?.url ?? null,
    config: parts.config,
    addresses: remembered?.controllerAddresses ?? [],
    endpoints: remembered?.endpoints ?? [],
    log,
    changed() {
      remember();
      renewFailsafe();
    },
  });
  const closing = new AbortController();
  const comeBack = new ComeBack(systemClock, settle);
  let certificates = remembered?.authorities ?? null;
  // Before anything else: what the kernel refuses this process ends it here.
  const holdsRules = await holdRules(dataplanes, node, log);

  let interfaces: InterfaceGroups | null = null;
  let enforcement: Enforcement | null = null;
  /** What the enforcement was started with is no longer so. */
  let isStale = false;
  /** Why nothing of ours is in the kernel; null: something is, or nobody has looked. */
  let isWithout: Why | null = null;
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
    const wanted = want.wanted(off.now !== null || comeBack.isWaiting);
    if (wanted.kind === 'nothing') return;
    if (wanted.kind === 'none') return isWithout === wanted.why ? undefined : await disable(wanted.why);
    if (isStale) await stop();
    isStale = false;
    await enforce(wanted.state);
  }

  async function start(): Promise<Enforcement> {
    const config = places.config();
    interfaces ??= await keepInterfaceGroups({ options, config, log });
    const started = await startEnforcement({
      options,
      config,
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
    isWithout = null;
    outcome.enabled = true;
    metrics.enabled(true);
    metrics.off(false);
    if (state === outcome.submitted) return;
    outcome.submitted = state;
    enforcement.submit(state);
  }

  /** Nothing is enforced, and nothing of ours stays in the kernel. */
  async function disable(why: Why): Promise<void> {
    await stop();
    const { removed, hidden } = await removeAll(dataplanes.all);
    warnHidden(log, node, hidden);
    await interfaces?.close();
    interfaces = null;
    const released = await releaseInterfaceGroups(stateDir, parts.config, log);
    isWithout = why;
    // `nodewall off` says nothing of the gate.
    const enabled = why === 'off' && want.gate !== false;
    Object.assign(outcome, { enabled, inForce: null, policies: 0, failing: [] });
    metrics.enabled(enabled);
    metrics.off(why === 'off');
    metrics.revision(null);
    log.info('disabled', { node, removed, interfaces: released.interfaces, gate: GATES[why] });
    report.changed(true);
  }

  function folded(now: Folded): void {
    const before = want.folded;
    const isNews = want.fold(now);
    outage?.end();
    outcome.viewError = null;
    revisions.set(now.state, now.revision);
    metrics.bookmark(now.revision);
    metrics.revision(revisionInForce());
    const wasAway = contact.awaySince() !== null;
    contact.bookmark(now.revision);
    if (wasAway || before?.enabled !== now.enabled) remember();
    places.said(now.endpoints);
    report.changed(before === null);
    if (comeBack.end() || isNews) settle();
  }

  /** By the API server, while no controller answers. */
  function seen(now: Seen): void {
    want.see(now);
    remember();
    settle();
  }

  function connected({ address }: Remote): void {
    metrics.connected(true);
    contact.connected();
    outage?.end();
    report.changed(true);
    places.reached(address);
  }

  function renewFailsafe(): void {
    if (enforcement === null) return;
    log.info('the control plane has other addresses; the failsafe list follows', {
      node,
      addresses: places.addresses,
      endpoints: places.endpoints,
    });
    isStale = true;
    settle();
  }

  function remember(): void {
    const { addresses: controllerAddresses, endpoints } = places;
    const ca = certificates === null ? {} : { authorities: certificates };
    memory.save({
      enabled: want.gate,
      controllerAddresses,
      endpoints,
      awaySince: contact.awaySince(),
      ...ca,
    });
  }

  function revisionInForce(): string | null {
    return outcome.inForce === null ? null : (revisions.get(want.origin(outcome.inForce)) ?? null);
  }

  function statusNow(): NodeReport {
    return {
      node,
      revision: want.folded?.revision ?? null,
      enforced: revisionInForce(),
      enabled: outcome.enabled === true,
      ...(off.now === null ? {} : { off: off.now.reason }),
      ...(outcome.viewError === null ? {} : { viewError: outcome.viewError.slice(0, LONGEST_REASON) }),
      failing: outcome.failing,
      policies: outcome.policies,
      hostAddresses: hostAddresses(networkInterfaces()),
      version: VERSION,
      dataplane: dataplanes.chosen.name,
      time: new Date().toISOString(),
    };
  }

  const { url, tokenFile, caFile } = controller;
  const authorities = controllerAuthorities({
    caFile,
    api,
    remembered: certificates,
    signal: closing.signal,
    learned(now) {
      certificates = now;
      remember();
    },
  });
  const client = controllerClient(
    { url, tokenFile, authorities, lookup: lookupOrLast(() => places.addresses, systemClock) },
    `nodewall-agent/${VERSION}`,
    systemClock,
    Math.random,
  );
  const common = { node, client, clock: systemClock, random: Math.random };
  const report = reporter({
    ...common,
    report: statusNow,
    done(error) {
      if (error === null) metrics.reported();
      contact.reported(error);
    },
  });
  const addresses = await watchAddresses({ node, log, changed: () => report.changed(true) });
  const outage = api === null ? null : loggedOutage({ node, api, log, seen });
  const learning = places.resolve();
  if (places.addresses.length === 0)
    await Promise.race([learning, sleep(RESOLVE_PATIENCE, undefined, { ref: false })]);
  const enforceLast = (): void => {
    const state = want.useLast();
    if (state === null) return;
    const isOff = off.now !== null;
    if (!isOff)
      log.info('the last good state is enforced until the controller is there', {
        node,
        rules: state.rules.length,
      });
    settle();
  };
  // Where this machine, or `nodewall off`, decides.
  if (want.wanted(off.now !== null).kind === 'none') settle();
  outage?.begin();
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
        // It answers; a whole view may mend it.
        if (error instanceof FoldError) return contact.refolding(error);
        contact.disconnected(error, retryIn);
        outage?.begin();
        remember();
      },
      unfollowable(error, retryIn) {
        metrics.connected(false);
        metrics.unfollowable(error.message);
        contact.unfollowable(error, retryIn);
        outcome.viewError = error.message;
        report.changed(true);
      },
    },
  });
  const stopListening = off.listen(() => {
    report.changed(true);
    comeBack.end();
    const isHeard = want.folded !== null && contact.awaySince() === null;
    if (off.now !== null || isHeard) return settle();
    log.info('nothing is enforced until a controller says what; after this time what was enforced last is', {
      node,
      seconds: ON_PATIENCE / 1000,
    });
    comeBack.begin();
    stream.retryNow();
  });
  const signal = await untilStopped();
  log.info('stopping; the rules stay', { node, signal });
  clearTimeout(patience);
  clearTimeout(retry);
  stopListening();
  comeBack.end();
  closing.abort();
  await outage?.close();
  await stream.close();
  await addresses.close();
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
