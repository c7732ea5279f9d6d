import type { EgressConfig } from '../../apis/egress/config.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import type { EgressObjects } from '../../apis/egress/objects.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Stepwise } from '../../lib/sharing/stepwise.ts';
import type { CompileExtension, ExtendedCompile } from '../extension/extension.ts';
import type { LoadProblem } from '../watch/source.ts';
import { type CompiledEgress, egressCompiler } from './compile-egress.ts';
import { nodeEgressCompiler } from './node-egress.ts';

interface EgressCompilingOptions {
  readonly config: EgressConfig;
  /** As configured; absent: every address counts. */
  readonly nodeCIDRs?: readonly string[] | undefined;
  /** Called when the nodes were sent a state. */
  readonly published: (state: PublishedEgress) => void;
  readonly log: Pick<Log, 'warn'>;
}

/** A state that the nodes were sent. */
export interface PublishedEgress {
  readonly compiled: CompiledEgress;
  readonly nodes: ReadonlyMap<string, NodeEgress>;
  readonly policies: EgressObjects['egressPolicies'];
  readonly problems: readonly LoadProblem[];
}

const MOST_SAID = 10;

/** Egress gateways in stage 2 of a controller. */
export class EgressCompiling implements CompileExtension {
  readonly #options: EgressCompilingOptions;
  #compile: ReturnType<typeof egressCompiler>;
  #view = nodeEgressCompiler();
  #mostLeftOut = 0;
  /** The namespaces that the log named. */
  readonly #crowded = new Set<string>();

  constructor(options: EgressCompilingOptions) {
    this.#options = options;
    this.#compile = this.#compiler();
  }

  restart(): void {
    this.#compile = this.#compiler();
    this.#view = nodeEgressCompiler();
  }

  *compile(objects: ClusterObjects): Stepwise<ExtendedCompile> {
    const compiled = yield* this.#compile.inSteps(objects);
    const nodes = yield* this.#view.inSteps(compiled);
    return {
      part: { egress: nodes },
      ignoredNetworks: compiled.inside.leftOut.size,
      published: ({ problems, objects: { egressPolicies: policies } }) => {
        this.#sayLeftOut(compiled.inside.leftOut);
        this.#sayCrowded(compiled.crowded);
        this.#options.published({ compiled, nodes, policies, problems });
      },
    };
  }

  /** An address that is in no status yet might pass to another policy before it is. */
  #compiler(): ReturnType<typeof egressCompiler> {
    const { config, nodeCIDRs = [] } = this.#options;
    return egressCompiler({ ...config, nodeCIDRs }, 'written');
  }

  /** Once for each namespace, until no namespace is crowded. */
  #sayCrowded(crowded: CompiledEgress['crowded']): void {
    if (crowded.size === 0) this.#crowded.clear();
    for (const namespace of crowded.values()) {
      if (this.#crowded.has(namespace) || this.#crowded.size >= MOST_SAID) continue;
      this.#crowded.add(namespace);
      const message =
        'the pods of the namespace have too many destinations by its EgressPolicies, and some of them send nothing outside; join policies, or raise egress.namespaceLimits';
      this.#options.log.warn(message, { stage: 'compile', name: namespace });
    }
  }

  /** Says them again only when there are more than ever: kubelets can change them at will. */
  #sayLeftOut(networks: ReadonlySet<string>): void {
    const { size } = networks;
    if (size <= this.#mostLeftOut) return;
    this.#mostLeftOut = size;
    const message =
      'what Nodes and pods say of themselves is outside of the networks of the cluster, and egress policies hold for it; if it belongs to the cluster, set egress.podCIDRs and nodeCIDRs (docs/egress.md)';
    this.#options.log.warn(message, {
      stage: 'compile',
      count: size,
      ignored: [...networks].slice(0, MOST_SAID),
    });
  }
}
