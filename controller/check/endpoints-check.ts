import { CONTROLLERS_PATH } from '../../apis/controller-state.ts';
import { asFields, asList } from '../../apis/schema/json-schema.ts';
import { type CheckLine, firstNames, ok, warning } from '../../lib/process/check-line.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { type CheckedObject, readObject } from './checked.ts';

const CHECK = 'endpoints';

/** Whether endpoints of the Services of toServices count, which a pod must have. */
export async function endpointsOfPods(request: KubeApi): Promise<readonly CheckLine[]> {
  const list = await readObject<CheckedObject & { readonly items?: unknown }>(request, CONTROLLERS_PATH);
  const states = asList(list?.items).map((item) => asFields(asFields(item)?.state));
  if (states.every((state) => !Array.isArray(state?.leftOutServices))) return [];
  const names = [...new Set(states.flatMap((state) => asList(state?.leftOutServices).map(String)))].sort();
  if (names.length === 0) return [ok(CHECK, 'pods have all endpoints of Services in toServices')];
  return [
    warning(
      CHECK,
      `no pod of the namespace has some endpoints, which toServices leaves out: ${firstNames(names)}`,
      `if they are right, add to config.yaml in ConfigMap nodewall-config: endpointsWithoutPods: [${names.join(', ')}]`,
    ),
  ];
}
