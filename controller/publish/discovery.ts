import { CONTROL_PLANE } from '../../apis/stream.ts';

const { group, version } = CONTROL_PLANE;
const GROUP_VERSION = `${group}/${version}`;
const API = { groupVersion: GROUP_VERSION, version };
const GROUP = { name: group, versions: [API], preferredVersion: API };

/**
 * What the API server and kubectl ask to find the resource, by path: meta/v1 APIGroupList, APIGroup
 * and APIResourceList, and OpenAPI documents that say no more than that there is nothing to
 * validate. Watching is left out of the verbs: what comes is no meta/v1 WatchEvent, so no informer
 * may try.
 */
export const DISCOVERY: ReadonlyMap<string, object> = new Map<string, object>([
  ['/apis', { kind: 'APIGroupList', apiVersion: 'v1', groups: [GROUP] }],
  [`/apis/${group}`, { kind: 'APIGroup', apiVersion: 'v1', ...GROUP }],
  [
    `/apis/${GROUP_VERSION}`,
    {
      kind: 'APIResourceList',
      apiVersion: 'v1',
      groupVersion: GROUP_VERSION,
      resources: [
        {
          name: 'nodeviews',
          singularName: 'nodeview',
          namespaced: false,
          kind: 'NodeView',
          shortNames: ['nv'],
          verbs: ['get', 'list'],
        },
        {
          name: 'nodeviews/status',
          singularName: '',
          namespaced: false,
          kind: 'NodeView',
          verbs: ['update'],
        },
      ],
    },
  ],
  ['/openapi/v2', { swagger: '2.0', info: { title: 'nodewall', version }, paths: {}, definitions: {} }],
  [
    '/openapi/v3',
    {
      paths: {
        [`apis/${GROUP_VERSION}`]: { serverRelativeURL: `/openapi/v3/apis/${GROUP_VERSION}?hash=${version}` },
      },
    },
  ],
  [
    `/openapi/v3/apis/${GROUP_VERSION}`,
    { openapi: '3.0.0', info: { title: 'nodewall', version }, paths: {}, components: { schemas: {} } },
  ],
]);
