import { readSync } from 'node:fs';
import { serveMirrored } from '../../lib/process/mirrored-process.ts';
import { errorMessage } from '../../lib/sharing/error.ts';
import { OBJECT_EXTENSION } from '../extension/objects.ts';
import type { AdmissionStep, AdmissionWorld } from './admission.ts';
import { admitBody, type BodyAdmission } from './admit-body.ts';
import { NO_LISTS, type WorldLists } from './world-mirror.ts';

/** Sent by admission-process.ts to the process of this file; a body's bytes follow by its stdin. */
export interface AdmissionChildQuestion {
  readonly length: number;
  readonly step: AdmissionStep;
  /** The world without its lists; null for all objects: nothing has been listed yet. */
  readonly world: Omit<AdmissionWorld, 'objects'> & { readonly objects?: null };
}

export type AdmissionChildAnswer = { readonly admission: BodyAdmission | null } | { readonly error: string };

function admitting() {
  const extension = OBJECT_EXTENSION.admission();
  return (
    { length, step, world }: AdmissionChildQuestion,
    objects: WorldLists,
    send: (answer: AdmissionChildAnswer) => void,
  ): void => {
    const body = readBytes(length);
    try {
      send({ admission: admitBody(body, step, { objects, ...world }, extension) });
    } catch (error) {
      send({ error: errorMessage(error) });
    }
  };
}

const STDIN = 0;

/** Waits for them: this process has nothing else to do. */
function readBytes(length: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(length);
  for (let at = 0; at < length; ) {
    const count = readSync(STDIN, bytes, { offset: at });
    // The controller has ended.
    if (count === 0) process.exit();
    at += count;
  }
  return bytes;
}

serveMirrored(NO_LISTS, admitting());
