CREATE TABLE public.feedctl_positions (
    table_name text NOT NULL,
    name text NOT NULL,
    "position" text NOT NULL,
    owner text NOT NULL,
    commits bigint NOT NULL
);
CREATE TABLE public.feedctl_quarantine (
    id bigint NOT NULL,
    table_name text NOT NULL,
    name text NOT NULL,
    content_id text NOT NULL,
    key text NOT NULL,
    operation text NOT NULL,
    last_modified timestamp with time zone NOT NULL,
    reason text NOT NULL,
    quarantined timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE public.feedctl_quarantine ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.feedctl_quarantine_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.things (
    key text NOT NULL,
    content_type text NOT NULL,
    last_modified timestamp with time zone NOT NULL,
    content_id text NOT NULL,
    headers json NOT NULL,
    body json,
    bytes bytea
);
CREATE TABLE public.typed (
    id text NOT NULL,
    n integer NOT NULL,
    doc jsonb
);
INSERT INTO public.feedctl_positions VALUES ('things', '', '{"lastModified":"2026-11-23T01:24:32Z","contentId":"\u003cYHINBKTSY6CWRTA2JO3QZD6HAM-7@things\u003e","page":"http://127.0.0.1:8099/feeds/things/pages/3","feed":"http://127.0.0.1:8099/feeds/things"}', 'DLXWLQYFFQKDPUVRUHO53U6ZEU', 1);
INSERT INTO public.feedctl_positions VALUES ('typed', '', '{"lastModified":"2026-11-23T01:24:32Z","contentId":"\u003cYHINBKTSY6CWRTA2JO3QZD6HAM-7@things\u003e","page":"http://127.0.0.1:8099/feeds/things/pages/3","feed":"http://127.0.0.1:8099/feeds/things"}', 'LRXQGEWJRPVL2YMPUYRHOY4HDV', 1);
INSERT INTO public.things VALUES ('k1', 'application/json', '2026-11-23 01:24:32+00', '<YHINBKTSY6CWRTA2JO3QZD6HAM-1@things>', '{}', '{"id":"k1","n":1}', NULL);
INSERT INTO public.things VALUES ('k2', 'application/json', '2026-11-23 01:24:32+00', '<YHINBKTSY6CWRTA2JO3QZD6HAM-2@things>', '{}', '{"id":"k2","n":2}', NULL);
INSERT INTO public.things VALUES ('k3', 'application/json', '2026-11-23 01:24:32+00', '<YHINBKTSY6CWRTA2JO3QZD6HAM-3@things>', '{}', '{"id":"k3","n":3}', NULL);
INSERT INTO public.things VALUES ('k4', 'application/json', '2026-11-23 01:24:32+00', '<YHINBKTSY6CWRTA2JO3QZD6HAM-4@things>', '{}', '{"id":"k4","n":4}', NULL);
INSERT INTO public.things VALUES ('k5', 'application/json', '2026-11-23 01:24:32+00', '<YHINBKTSY6CWRTA2JO3QZD6HAM-5@things>', '{}', '{"id":"k5","n":5}', NULL);
INSERT INTO public.things VALUES ('k6', 'application/json', '2026-11-23 01:24:32+00', '<YHINBKTSY6CWRTA2JO3QZD6HAM-6@things>', '{}', '{"id":"k6","n":6}', NULL);
INSERT INTO public.things VALUES ('k7', 'application/json', '2026-11-23 01:24:32+00', '<YHINBKTSY6CWRTA2JO3QZD6HAM-7@things>', '{}', '{"id":"k7","n":7}', NULL);
INSERT INTO public.typed VALUES ('k1', 1, '{"n": 1, "id": "k1"}');
INSERT INTO public.typed VALUES ('k2', 2, '{"n": 2, "id": "k2"}');
INSERT INTO public.typed VALUES ('k3', 3, '{"n": 3, "id": "k3"}');
INSERT INTO public.typed VALUES ('k4', 4, '{"n": 4, "id": "k4"}');
INSERT INTO public.typed VALUES ('k5', 5, '{"n": 5, "id": "k5"}');
INSERT INTO public.typed VALUES ('k6', 6, '{"n": 6, "id": "k6"}');
INSERT INTO public.typed VALUES ('k7', 7, '{"n": 7, "id": "k7"}');
ALTER TABLE ONLY public.feedctl_positions
    ADD CONSTRAINT feedctl_positions_pkey PRIMARY KEY (table_name, name);
ALTER TABLE ONLY public.feedctl_quarantine
    ADD CONSTRAINT feedctl_quarantine_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.things
    ADD CONSTRAINT things_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.typed
    ADD CONSTRAINT typed_pkey PRIMARY KEY (id);
