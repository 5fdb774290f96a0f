// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { compareNames, list, number } from "../format";
import { addRole, edit, editRole, removeRole, type Fields, type Form, type RoleFields } from "../manifest";
import { byModel, wholeGPUs } from "../models";
import { useCollection, useSummary } from "../page";
import { gpuSteps, podSteps } from "../steps";
import { SelectField, Stepper, TextField } from "./Fields";

interface Props {
  form: Form;
  text: string;
  onText: (text: string) => void;
  /** What is wrong with fields, by the name of the field. */
  problems: ReadonlyMap<string, string>;
}

/** The fields of a task that most often decide when it starts. What is changed here is changed in the text. */
export function TaskForm({ form, text, onText, problems }: Props): JSX.Element {
  const most = useMost(form.model);
  const put = (changes: Partial<Fields>) => onText(edit(text, changes));
  const field = (name: keyof Fields) => ({ value: form[name], problem: problems.get(name), onChange: (value: string) => put({ [name]: value }) });
  const hasRoles = form.roles.length > 0;
  return (
    <>
      <div class="fields">
        <Model {...field("model")} />
        <Stepper label={hasRoles ? "GPUs per Pod by default" : "GPUs per Pod"} {...field("gpus")} steps={gpuSteps(most.perNode)} slider />
        {!hasRoles && <Stepper label="Pods" {...field("pods")} steps={podSteps(most.pods)} slider />}
      </div>
      <Roles form={form} text={text} onText={onText} problems={problems} perNode={most.perNode} />
      <div class="fields">
        <Identity form={form} field={field} />
        <TextField label="CPU cores per Pod" {...field("cpu")} placeholder="none" />
        <TextField label="Memory per Pod" {...field("memory")} placeholder="none, or as 16Gi" />
        <Order field={field} form={form} />
        <Topology field={field} form={form} />
      </div>
    </>
  );
}

type FieldOf = (name: keyof Fields) => { value: string; problem: string | undefined; onChange: (value: string) => void };

function Model(field: ReturnType<FieldOf>): JSX.Element {
  const models = useSummary()?.models;
  const options = useMemo(() => byModel(list(models)).filter(({ model }) => model !== "").map(({ model, sum }) => ({
    value: model, label: `${model} (${number(sum.free)} of ${number(wholeGPUs(sum))} free)`,
  })), [models]);
  return <SelectField label="GPU model" {...field} options={[{ value: "", label: "Any" }, ...options]} />;
}

function Identity({ form, field }: { form: Form; field: FieldOf }): JSX.Element {
  const summary = useSummary();
  const tasks = useCollection("tasks");
  const namespaces = useMemo(() => [...new Set([...tasks.rows.values()].map((task) => task.namespace))].sort(compareNames), [tasks.keyChanges]);
  const namespace = form.namespace || summary?.namespace || "";
  const exists = tasks.rows.has(`${namespace}/${form.name}`);
  return (
    <>
      <TextField label="Name" {...field("name")} hint={exists ? "There is such a task: to create another one, change the name." : undefined} />
      <TextField label="Namespace" {...field("namespace")} placeholder={namespace} suggestions={namespaces} />
    </>
  );
}

/** Who is served first: only what the cluster has is asked for. */
function Order({ form, field }: { form: Form; field: FieldOf }): JSX.Element {
  const priorities = list(useSummary()?.priorities);
  const queues = useCollection("queues");
  const names = [...queues.rows.values()].sort((a, b) => a.order - b.order).map((queue) => queue.name);
  return (
    <>
      {(priorities.length > 0 || form.priority !== "") && <SelectField label="Priority class" {...field("priority")} options={optional("The default", priorities)} />}
      {(names.length > 0 || form.queue !== "") && <SelectField label="Queue" {...field("queue")} options={optional("That of the namespace", names)} />}
    </>
  );
}

function Topology({ form, field }: { form: Form; field: FieldOf }): JSX.Element | null {
  const levels = list(useSummary()?.levels);
  if (levels.length === 0 && form.level === "") return null;
  const modes = ["Preferred", "Required"].map((mode) => ({ value: mode, label: mode }));
  const { value, ...mode } = field("mode");
  return (
    <>
      <SelectField label="All Pods in one" {...field("level")} options={optional("(anywhere)", levels)} />
      {form.level !== "" && <SelectField label="This is" {...mode} value={value || "Preferred"} options={modes} />}
    </>
  );
}

function Roles({ form, text, onText, problems, perNode }: Props & { perNode: number }): JSX.Element {
  const count = form.roles.length;
  return (
    <div class="roles">
      {form.roles.map((role, index) => {
        const field = (name: keyof RoleFields) => ({
          value: role[name], problem: problems.get(`roles[${index}].${name}`), onChange: (value: string) => onText(editRole(text, index, { [name]: value })),
        });
        return (
          <fieldset key={index} class="role">
            <legend>Role {index + 1}</legend>
            <TextField label="Name" {...field("name")} />
            <Stepper label="Pods" {...field("pods")} steps={podSteps(4096)} />
            <Stepper label="GPUs per Pod" {...field("gpus")} placeholder={form.gpus || "1"} steps={gpuSteps(perNode)} />
            <button type="button" class="small" onClick={() => onText(removeRole(text, index))}>Remove<span class="visually-hidden"> role {role.name}</span></button>
          </fieldset>
        );
      })}
      <button type="button" class="small" onClick={() => onText(addRole(text))}>{count > 0 ? "Add a role" : "Divide into roles"}</button>
    </div>
  );
}

function optional(none: string, names: readonly string[]): { value: string; label: string }[] {
  return [{ value: "", label: none }, ...names.map((name) => ({ value: name, label: name }))];
}

const mostPods = 64;

/** The most GPUs that a node of a model has, and as many Pods as there are GPUs, up to a limit: how far sliders go. */
function useMost(model: string): { perNode: number; pods: number } {
  const nodes = useCollection("nodes");
  return useMemo(() => {
    const counts = [...nodes.rows.values()].filter((node) => model === "" || node.model === model).map((node) => list(node.gpus).length);
    const total = counts.reduce((sum, count) => sum + count, 0);
    return { perNode: Math.max(0, ...counts) || 8, pods: Math.min(total || mostPods, mostPods) };
  }, [model, nodes.keyChanges]);
}
