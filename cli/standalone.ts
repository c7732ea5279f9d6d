import { type Clock, type Enforced, Enforcer, type EnforcerEvents } from '../agent/apply/enforcer.ts';
import type { Kernel } from '../agent/apply/kernel.ts';
import { NodeRuleReconciler } from '../agent/apply/reconciler.ts';
import { changesStructure } from '../agent/apply/transaction.ts';
import type { NodeState } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import { compiler } from '../controller/compile/compile.ts';
import { nodeView } from '../controller/publish/nodeview.ts';
import { fileSource } from '../controller/watch/filesource.ts';
import type { Snapshot } from '../controller/watch/source.ts';
import type { AgentOptions } from './agentoptions.ts';
import { CommandError, EXIT, type ExitStatus } from './exit.ts';
import type { InterfaceGroups } from './interfacegroups.ts';
import { lastGood } from './lastgood.ts';
import { usedLinkGroups, withLastLinkGroups } from './linkgroups.ts';
import { hasErrors } from './load.ts';
import type { Log } from './log.ts';
import { nameOverlay } from './nameoverlay.ts';
import { progress } from './progress.ts';
import { recording } from './recording.ts';
import { untilStopped } from './stopped.ts';
import { watchKernel } from './watchkernel.ts';

interface Parts {
  readonly options: AgentOptions;
  readonly manifests: readonly string[];
  readonly config: Config;
  readonly log: Log;
  readonly kernel: Kernel;
  readonly interfaces: InterfaceGroups;
}

/** What has come of it so far. */
interface Outcome {
  snapshot: Snapshot | null;
  /** Whether a manifest declares the node. */
  declared: boolean;
  enforced: Enforced | null;
  failure: Error | null;
}

/** The stand-alone agent: stages 1, 2 and 4 to 6 in one process, from a directory of manifests. */
export async function runStandalone(parts: Parts): Promise<ExitStatus> {
  const { options, manifests, log, kernel, interfaces } = parts;
  const { node, once, stateDir } = options;
  const saved = lastGood({ stateDir, node, manifests, log });
  const config = withLastLinkGroups(parts.config, await saved.readLinkGroups(), log);
  const reports = progress(node, log);
  const outcome: Outcome = { snapshot: null, declared: true, enforced: null, failure: null };
  const events: EnforcerEvents = {
    drifted: reports.drifted,
    unrecorded: reports.unrecorded,
    enforced(result) {
      reports.enforced(result);
      Object.assign(outcome, { enforced: result, failure: null });
      saved.state(names.withoutNames(result.state));
      saved.linkGroups(usedLinkGroups(result.state, config));
      if (changesStructure(result.transaction)) saved.digests(reconciler.digests());
      records.enforced(result, reconciler.inForce());
    },
    failed(error, retryIn) {
      reports.failed(error, retryIn);
      outcome.failure = error;
    },
  };
  const records = recording({ options, config, log, kernel, interfaces });
  const reconciler = new NodeRuleReconciler(kernel, {
    remembered: await saved.readDigests(),
    beforeLoss: records.beforeLoss,
  });
  const enforcer = new Enforcer({
    reconciler,
    config,
    events,
    clock: systemClock,
    lastGood: async () => {
      const state = await saved.readState();
      return state === null ? null : names.withNames(state);
    },
  });
  const names = nameOverlay({
    config: config.names,
    clock: systemClock,
    log,
    stateDir,
    once,
    submit(state) {
      records.learn(state);
      enforcer.submit(state);
    },
  });
  const stopWatching = once ? async () => {} : watchKernel({ reconciler, enforcer, log });
  await records.start();
  const remembered = await saved.readManifests();
  const source = fileSource(manifests, {
    remembered,
    failsafe: config.failsafe.ingress,
    interfaceGroups: Object.keys(config.interfaceGroups),
  });
  const compile = compiler();

  let grouped: Promise<void> = Promise.resolve();
  function submit(state: NodeState): void {
    grouped = interfaces.nodeHas(state.nodeAddresses);
    names.submit(state);
  }

  function deliver(snapshot: Snapshot): void {
    outcome.snapshot = snapshot;
    reports.problems(snapshot);
    if (!snapshot.complete) return;
    const compiled = compile(snapshot.objects);
    outcome.declared = compiled.nodeAddresses.has(node);
    if (!outcome.declared) {
      reports.undeclared();
      return;
    }
    submit(nodeView(compiled, node));
    saved.manifests(source.remember());
  }

  async function enforceLastGood(): Promise<boolean> {
    const state = await saved.readState();
    // The manifests may have come meanwhile: what they hold is newer.
    const isNeeded = !outcome.snapshot?.complete || !outcome.declared;
    if (state !== null && isNeeded) submit(state);
    return state !== null;
  }

  try {
    await source.start((snapshot) => {
      try {
        deliver(snapshot);
      } catch (error) {
        reports.internalError(error);
      }
    });
    if (!outcome.snapshot?.complete) reports.waiting(manifests, await enforceLastGood());
    // The machine may have just started: then what it had is better than nothing.
    else if (!outcome.declared && !(await reconciler.holdsTable())) await enforceLastGood();
    if (once || !outcome.declared) {
      await grouped;
      await names.idle();
      await enforcer.idle();
      return onceStatus(outcome, options);
    }
    const signal = await untilStopped();
    log.info('stopping; the rules stay', { node, signal });
    return EXIT.done;
  } finally {
    await stopWatching();
    await source.close();
    await names.close();
    await enforcer.close();
    await records.close();
    await saved.flush();
  }
}

function onceStatus(
  { snapshot, declared, enforced, failure }: Outcome,
  { node, strict }: AgentOptions,
): ExitStatus {
  if (failure !== null) throw failure;
  if (!declared) {
    throw new CommandError(
      EXIT.invalid,
      `no manifest declares Node ${node}; add one of kind Node with that name, or start with another --node`,
    );
  }
  if (!snapshot?.complete) {
    throw new CommandError(
      EXIT.invalid,
      'the manifests cannot be read; see the log. What was enforced stays enforced',
    );
  }
  // What the kernel refused is named in the log.
  if (enforced !== null && enforced.failed.size > 0) return EXIT.refused;
  return strict && hasErrors(snapshot.problems) ? EXIT.invalid : EXIT.done;
}

const systemClock: Clock = {
  now: () => performance.now(),
  after(milliseconds, callback) {
    const timer = setTimeout(callback, milliseconds);
    return () => clearTimeout(timer);
  },
};
