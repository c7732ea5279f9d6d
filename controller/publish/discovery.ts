import { NODE_DATA } from '../../apis/node-question.ts';
import { CONTROL_PLANE } from '../../apis/stream.ts';

const { group, version } = CONTROL_PLANE;
const GROUP_VERSION = `${group}/${version}`;
const API = { groupVersion: GROUP_VERSION, version };
const GROUP = { name: group, versions: [API], preferredVersion: API };

/**
 * Discovery documents of the API, by path: meta/v1 APIGroupList, APIGroup and APIResourceList, and
 * OpenAPI documents without schemas. The verbs don't include watch: its messages are not meta/v1
 * WatchEvents, so informers must not try.
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
        ...NODE_DATA.map((about) => ({
          name: `nodeviews/${about}`,
          singularName: '',
          namespaced: false,
          kind: 'NodeView',
          verbs: ['get'],
        })),
        {
          name: 'controllers',
          singularName: 'controller',
          namespaced: false,
          kind: 'Controller',
          verbs: ['list'],
        },
        { name: 'console', singularName: '', namespaced: false, kind: 'ConsoleFile', verbs: ['get'] },
        { name: 'overviews', singularName: 'overview', namespaced: false, kind: 'Overview', verbs: ['get'] },
        { name: 'previews', singularName: 'preview', namespaced: false, kind: 'Preview', verbs: ['create'] },
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
