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
 * All that `npm run generate` writes: the CustomResourceDefinitions, the tables of docs/metrics.md,
 * the dashboards, and the alerts with their runbooks.
 */
export function generatedFiles(): Map<URL, string> {
  return new Map([...crdFiles(), [METRICS_PAGE, metricsPage()], ...monitoringFiles()]);
}
