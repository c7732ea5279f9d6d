import { customResourceDefinitions } from '../../apis/schema/crd.ts';
import { type CheckLine, firstNames, ok, problem } from '../../lib/process/check-line.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { readObject } from './checked.ts';

interface Definition {
  readonly spec: {
    readonly scope: string;
    readonly versions: readonly { readonly name: string; readonly schema?: unknown }[];
  };
}

const PATH = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

/**
 * Whether the CustomResourceDefinitions are those of this version. Before the installation they may
 * be absent. Throws KubeError.
 */
export async function definitions(request: KubeApi, isInstalled: boolean): Promise<readonly CheckLine[]> {
  const ours = customResourceDefinitions();
  const theirs = await Promise.all(
    ours.map(({ metadata: { name } }) => readObject<Definition>(request, `${PATH}/${name}`)),
  );
  const absent: string[] = [];
  const other: string[] = [];
  for (const [i, { metadata, spec }] of ours.entries()) {
    const found = theirs[i] ?? null;
    if (found === null) absent.push(metadata.name);
    else if (!isSame(spec, found.spec)) other.push(metadata.name);
  }
  if (other.length > 0)
    return [
      problem(
        'definitions',
        `of another version: ${firstNames(other)}; what their schemas do not know is lost when an object is written`,
        'kubectl apply --server-side -f deploy/crds (of this version)',
      ),
    ];
  if (absent.length === ours.length && !isInstalled) return [ok('definitions', 'none yet')];
  if (absent.length > 0)
    return [
      problem('definitions', `missing: ${firstNames(absent)}`, 'kubectl apply --server-side -f deploy/crds'),
    ];
  return [ok('definitions', `${ours.length}, of this version`)];
}

function isSame(ours: Definition['spec'], theirs: Definition['spec']): boolean {
  const schemas = ({ scope, versions }: Definition['spec']): string =>
    canonical([scope, versions.map(({ name, schema }) => ({ name, schema }))]);
  return schemas(ours) === schemas(theirs);
}

/** The same text for the same value, whatever the order of its keys. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, item: unknown) => {
    if (typeof item !== 'object' || item === null || Array.isArray(item)) return item;
    return Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
