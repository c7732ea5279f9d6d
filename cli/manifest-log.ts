import type { ClusterObjects, Problem } from '../apis/objects.ts';
import { formatProblem } from '../apis/validate/problem.ts';
import type { LoadedManifests } from '../controller/watch/source.ts';
import type { Log } from '../lib/process/log.ts';
import { undeclaredText } from './machine-node.ts';

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
export function manifestLog(node: string, log: Log) {
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
