import { join } from 'node:path';
import { type Random, seededRandom } from '../../perf/generate/random.ts';
import { type ApiClient, apiClient } from '../cluster/api-client.ts';
import type { Story } from '../e2e/story-bed.ts';
import { AskedProcess } from '../netns/asked-process.ts';
import type { Namespace } from '../netns/namespace.ts';
import type { HostileAnswer, HostileDeed } from './hostile-child.ts';

/** Numbers from a seed: the same seed, the same numbers. */
export class Dice {
  readonly #random: Random;

  constructor(seed: number) {
    this.#random = seededRandom(String(seed));
  }

  /** From 0 to below `below`. */
  number(below: number): number {
    return this.#random.below(below);
  }

  one<T>(all: readonly T[]): T {
    return all[this.number(all.length)] as T;
  }

  /** Bytes as characters. */
  bytes(most: number): string {
    return String.fromCharCode(...Array.from({ length: this.number(most) }, () => this.number(256)));
  }

  address(): string {
    return [this.one([10, 192, 198, 203, 172, 1]), this.number(256), this.number(256), this.number(256)].join(
      '.',
    );
  }
}

const CHILD = join(import.meta.dirname, 'hostile-child.ts');
/** Another user, without groups and capabilities. */
const NOBODY = [
  ...[
    'setpriv',
    '--reuid=65534',
    '--regid=65534',
    '--clear-groups',
    '--bounding-set=-all',
    '--inh-caps=-all',
  ],
  ...['--no-new-privs', '--'],
];

/** A process that does deeds in a namespace. */
class HostileProcess {
  readonly #child: ReturnType<Namespace['spawn']>;
  readonly #asked: AskedProcess<HostileDeed, HostileAnswer>;

  constructor(namespace: Namespace, { isNobody = false } = {}) {
    this.#child = namespace.spawn([...(isNobody ? NOBODY : []), process.execPath, CHILD]);
    this.#child.stderr.pipe(process.stderr);
    this.#asked = new AskedProcess(this.#child);
  }

  do(deed: HostileDeed): Promise<HostileAnswer> {
    return this.#asked.ask(deed).catch(({ message }: Error) => ({ code: 0, text: message }));
  }

  end(): void {
    this.#child.kill('SIGKILL');
  }
}

/** The cluster, and what the five have of it. */
export interface HostileWorld {
  readonly story: Story;
  readonly dice: Dice;
  /** With the rights of the tenant alone. */
  readonly tenant: ApiClient;
  /** For what a kubelet may write of its own Node and its pods. */
  readonly kubelet: ApiClient;
  /** The agent's tokens of the Node {@link VICTIM}: for controllers, and for the API server. */
  readonly stolen: { readonly controllers: string; readonly api: string };
  /** On a machine that is no Node. */
  readonly stranger: HostileProcess;
  /** On the Node {@link VICTIM}, without capabilities. */
  readonly nobody: HostileProcess;
  /** Process id of its agent. */
  readonly agentPid: () => Promise<number>;
}

/** The Node whose kubelet, agent's token and network namespace the five have. */
export const VICTIM = 'worker-2';
export const TENANT = 'tenant';
/** A policy of another node; nobody of the five may read its name. */
export const HIDDEN = 'hidden-5b1c';

const RIGHTS = `
apiVersion: v1
kind: Namespace
metadata: {name: ${TENANT}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: owner, namespace: ${TENANT}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: everything, namespace: ${TENANT}}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: everything, namespace: ${TENANT}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: everything}
subjects: [{kind: ServiceAccount, name: owner, namespace: ${TENANT}}]
`;

export async function hostileWorld(story: Story, seed: number): Promise<HostileWorld> {
  const { cluster, controlPlane } = story;
  await cluster.apply(RIGHTS);
  const clientOf = async (name: string, token: string): Promise<ApiClient> => {
    const kubeconfig = await cluster.kubeconfigFor(name, { token });
    const socketPath = join(cluster.folder, `${name}.api`);
    return apiClient({ kubeconfig, inside: { namespace: controlPlane, socketPath } });
  };
  const audiences = ['nodewall-controller'];
  const agent = 'nodewall-system/nodewall-agent';
  return {
    story,
    dice: new Dice(seed),
    tenant: await clientOf('tenant', await cluster.token(`${TENANT}/owner`)),
    kubelet: await clientOf('kubelet', cluster.adminToken),
    stolen: {
      controllers: await cluster.token(agent, { boundNode: VICTIM, audiences }),
      api: await cluster.token(agent, { boundNode: VICTIM }),
    },
    stranger: new HostileProcess(story.machine('other1').namespace),
    nobody: new HostileProcess(story.machine(VICTIM).namespace, { isNobody: true }),
    async agentPid() {
      const path = join(cluster.folder, `${VICTIM}.state`, 'agent.json');
      return Number(JSON.parse(await (await import('node:fs/promises')).readFile(path, 'utf8')).pid);
    },
  };
}
