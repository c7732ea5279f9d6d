import { Monitor } from 'nftables-napi';
import { type Clock, Enforcer, type EnforcerEvents } from '../agent/apply/enforcer.ts';
import type { Kernel } from '../agent/apply/kernel.ts';
import { NodeRuleReconciler } from '../agent/apply/reconciler.ts';
import { TABLE } from '../agent/render/ruleset.ts';
import type { NodeState } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import { compiler } from '../controller/compile/compile.ts';
import { nodeView } from '../controller/publish/nodeview.ts';
import { fileSource } from '../controller/watch/filesource.ts';
import type { Snapshot } from '../controller/watch/source.ts';
import type { AgentOptions } from './agentoptions.ts';
import { CommandError, EXIT, type ExitStatus } from './exit.ts';
import { lastGood } from './lastgood.ts';
import { hasErrors } from './load.ts';
import type { Log } from './log.ts';
import { progress } from './progress.ts';
import { untilStopped } from './stopped.ts';

/** A full comparison with the kernel, besides what the monitor tells at once. */
const VERIFY_INTERVAL = 60_000;

interface Parts {
  readonly options: AgentOptions;
  readonly manifests: readonly string[];
  readonly config: Config;
  readonly log: Log;
  readonly kernel: Kernel;
}

/** The stand-alone agent: stages 1, 2 and 4 to 6 in one process, from a directory of manifests. */
export async function runStandalone({ options, manifests, config, log, kernel }: Parts): Promise<ExitStatus> {
  const { node, once } = options;
  const saved = lastGood({ stateDir: options.stateDir, node, manifests, log });
  const reports = progress(node, log);
  let failure: Error | null = null;
  const events: EnforcerEvents = {
    ...reports,
    enforced(result) {
      reports.enforced(result);
      failure = null;
      saved.state(result.state);
    },
    failed(error, retryIn) {
      reports.failed(error, retryIn);
      failure = error;
    },
  };
  const reconciler = new NodeRuleReconciler(kernel);
  const enforcer = new Enforcer({ reconciler, config, events, clock: systemClock });
  const source = fileSource(manifests, {
    remembered: await saved.readManifests(),
    failsafe: config.failsafe.ingress,
  });
  const target = new Target(enforcer, { node, log, reports });
  let latest: Snapshot | null = null;
  await source.start((snapshot) => {
    latest = snapshot;
    reports.problems(snapshot);
    if (!snapshot.complete) return;
    try {
      target.submit(snapshot);
      saved.manifests(source.remember());
    } catch (error) {
      reports.internalError(error);
    }
  });
  const first = latest as Snapshot | null;
  if (first === null || !first.complete) {
    const state = await saved.readState();
    // The directory may have come meanwhile: what it holds is newer.
    if (!(latest as Snapshot | null)?.complete) {
      if (state !== null) target.submitLastGood(state);
      reports.waiting(manifests, state !== null);
    }
  }
  try {
    if (once) {
      await enforcer.idle();
      await saved.flush();
      return onceStatus({ snapshot: first, failure, undeclared: target.undeclared, options });
    }
    if (target.undeclared !== null && first?.complete) throw undeclaredNode(target.undeclared);
    const stopWatching = watchKernel({ reconciler, enforcer, log });
    const signal = await untilStopped();
    log.info('stopping; the rules stay', { node, signal });
    await stopWatching();
    return EXIT.done;
  } finally {
    await source.close();
    await enforcer.close();
    await saved.flush();
  }
}

/** Turns what the directory holds into what the node must enforce. */
class Target {
  readonly #enforcer: Enforcer;
  readonly #node: string;
  readonly #compile = compiler();
  readonly #reports: ReturnType<typeof progress>;
  /** The node's name while no manifest declares it. */
  undeclared: string | null = null;

  constructor(
    enforcer: Enforcer,
    { node, reports }: { node: string; log: Log; reports: ReturnType<typeof progress> },
  ) {
    this.#enforcer = enforcer;
    this.#node = node;
    this.#reports = reports;
  }

  submit({ objects }: Snapshot): void {
    const compiled = this.#compile(objects);
    if (!compiled.nodeAddresses.has(this.#node)) {
      this.undeclared = this.#node;
      this.#reports.undeclared();
      return;
    }
    this.undeclared = null;
    this.#enforcer.submit(nodeView(compiled, this.#node));
  }

  submitLastGood(state: NodeState): void {
    this.#enforcer.submit(state);
  }
}

function undeclaredNode(node: string): CommandError {
  return new CommandError(
    EXIT.invalid,
    `no manifest declares Node ${node}; add one of kind Node with that name, or start with another --node`,
  );
}

interface OnceOutcome {
  readonly snapshot: Snapshot | null;
  readonly failure: Error | null;
  readonly undeclared: string | null;
  readonly options: AgentOptions;
}

function onceStatus({ snapshot, failure, undeclared, options }: OnceOutcome): ExitStatus {
  if (failure !== null) throw failure;
  if (undeclared !== null) throw undeclaredNode(undeclared);
  if (snapshot === null || !snapshot.complete) {
    throw new CommandError(
      EXIT.invalid,
      'the manifests cannot be read; see the log. What was enforced stays enforced',
    );
  }
  return options.strict && hasErrors(snapshot.problems) ? EXIT.invalid : EXIT.done;
}

/** Foreign changes of our table lead to a comparison at once, and one comes at a slow interval besides. */
function watchKernel({
  reconciler,
  enforcer,
  log,
}: {
  reconciler: NodeRuleReconciler;
  enforcer: Enforcer;
  log: Log;
}): () => Promise<void> {
  const monitor = new Monitor({ family: TABLE.family, table: TABLE.name }, (event) => {
    // Our own commit's event can come before its call returns: judge it once nothing runs.
    void enforcer.idle().then(() => {
      if (event.kind === 'error')
        log.error('the monitor failed; only the slow comparison is left', { error: event.error.message });
      else if (event.kind === 'overrun') enforcer.verify();
      else if (!reconciler.isOwn(event.generation)) {
        log.debug('the table was changed by somebody else', {
          by: event.processName,
          generation: event.generation,
        });
        enforcer.verify();
      }
    });
  });
  const interval = setInterval(() => enforcer.verify(), VERIFY_INTERVAL);
  enforcer.verify();
  return async () => {
    clearInterval(interval);
    await monitor.close();
  };
}

const systemClock: Clock = {
  now: () => performance.now(),
  after(milliseconds, callback) {
    const timer = setTimeout(callback, milliseconds);
    return () => clearTimeout(timer);
  },
};
