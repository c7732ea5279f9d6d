import { readFileSync } from 'node:fs';
import { stringify } from 'yaml';
import { customResourceDefinitions } from '../../apis/schema/crd.ts';
import { METRICS_PAGE, metricsPage } from './metrics-page.ts';
import { monitoringFiles } from './monitoring/rules.ts';

const MADE_OF_SCHEMA = '# Made from apis/schema by `npm run generate`; edit there.\n';
const deploy = new URL('../../deploy/', import.meta.url);

/** The files of deploy/crds, one for each kind, and what is in them. */
export function crdFiles(): Map<URL, string> {
  return new Map(
    customResourceDefinitions().map((definition) => {
      const { singular } = definition.spec.names;
      // Equal parts would become anchors.
      const text = stringify(definition, { aliasDuplicateObjects: false, lineWidth: 0 });
      return [new URL(`crds/${singular}.yaml`, deploy), MADE_OF_SCHEMA + text];
    }),
  );
}

/**
 * All that `npm run generate` writes: the CustomResourceDefinitions, kustomize's copies of what is
 * applied without it too, the tables of docs/metrics.md, and the alerts with their runbooks.
 */
export function generatedFiles(): Map<URL, string> {
  const crds = crdFiles();
  const rbac = readFileSync(new URL('rbac.yaml', deploy), 'utf8');
  const gate = readFileSync(new URL('gate/on.yaml', deploy), 'utf8');
  return new Map([
    ...crds,
    [
      new URL('kustomize/components/enforce/config.yaml', deploy),
      `# A copy of deploy/gate/on.yaml by \`npm run generate\`; edit there.\n${gate}`,
    ],
    [METRICS_PAGE, metricsPage()],
    ...monitoringFiles(),
    [new URL('kustomize/base/crds.yaml', deploy), [...crds.values()].join('---\n')],
    [
      new URL('kustomize/base/rbac.yaml', deploy),
      `# A copy of deploy/rbac.yaml by \`npm run generate\`; edit there.\n${rbac}`,
    ],
  ]);
}
