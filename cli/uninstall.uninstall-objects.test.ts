import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { API_SERVICE } from '../agent/receive/api-server.ts';
import { ROOT } from '../test/structure/source-file.ts';
import { DEFINITIONS, REST, WEBHOOKS, WORKLOADS } from './uninstall.ts';

const BASE = join(ROOT, 'deploy/kustomize/base');
/** Those of components and overlays that are outside of the namespace. */
const OTHERS = [
  'components/admission-policies/policies.yaml',
  'components/no-aggregated-api/view-for-controllers.yaml',
  'overlays/startup-taint/taints.yaml',
];
/** Deleted with the namespace. */
const SYSTEM = 'nodewall-system';

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

describe('the objects that nodewall uninstall deletes', () => {
  const all = [...WEBHOOKS, ...WORKLOADS, ...REST, ...DEFINITIONS];
  const [kustomization] = parseAllDocuments(readFileSync(join(BASE, 'kustomization.yaml'), 'utf8'));
  const { resources } = (kustomization ?? assert.fail()).toJS() as { readonly resources: readonly string[] };
  const files = resources.flatMap((path) =>
    path.endsWith('.yaml') ? [path] : globSync(`${path}/*.yaml`, { cwd: BASE }),
  );
  const others = OTHERS.map((path) => `../${path}`);
  const installed = [...files, ...others].flatMap((file) =>
    parseAllDocuments(readFileSync(join(BASE, file), 'utf8')).map((one) => one.toJS() as Manifest),
  );

  it('are those of the base, of components and overlays, and the APIService', () => {
    const expected = installed
      .filter(({ kind, metadata }) => metadata.namespace !== SYSTEM || /^(Deployment|DaemonSet)$/.test(kind))
      .map(({ kind, metadata }) => `${kind} ${metadata.namespace ?? ''}/${metadata.name}`);
    const deleted = all.map(({ kind, path }) => {
      const [, namespace = ''] = /\/namespaces\/([^/]+)\/./.exec(path) ?? [];
      return `${kind} ${namespace}/${path.slice(path.lastIndexOf('/') + 1)}`;
    });
    assert.deepEqual(deleted.sort(), [...expected, `APIService /${API_SERVICE}`].sort());
  });

  it('have paths of their kinds', () => {
    for (const { kind, path } of all) {
      const plural = path.split('/').at(-2) ?? '';
      assert.equal(plural, `${kind.toLowerCase().replace(/y$/, 'ie')}s`, path);
    }
  });

  it('end with the namespace', () => {
    assert.equal(REST.at(-1)?.kind, 'Namespace');
  });
});
