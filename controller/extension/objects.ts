import { EGRESS_OBJECTS } from '../egress/check/egress-objects.ts';
import type { ObjectExtension } from './extension.ts';

/** Fills the port of stage 1. */
export const OBJECT_EXTENSION: ObjectExtension = EGRESS_OBJECTS;
